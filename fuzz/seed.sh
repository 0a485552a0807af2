#!/usr/bin/env bash
# Fills the fuzz targets' corpora with the codec's golden messages (crates/openflow/tests/golden), and with a folder of vectors
# if one is named: valid-of10.tsv to valid-of15.tsv and malformed-*, with one message per line in the last column, in
# hexadecimal.
set -euo pipefail
here=$(dirname "$0")
golden=$here/../crates/openflow/tests/golden
vectors=${1:-}

# seeds TARGET PREFIX: turns messages in hexadecimal, one per line, into seeds that consist of PREFIX, the message type and
# the body.
seeds() {
  local folder=$here/corpus/$1
  mkdir -p "$folder"
  awk -v prefix="$2" 'length >= 16 && length < 8192 { print prefix substr($0, 3, 2) substr($0, 17) }' |
    while read -r hex; do
      printf '%s' "$hex" | xxd -r -p >"$folder/$(printf '%s' "$hex" | sha1sum | cut -c1-16)"
    done
}

messages() {
  grep -Ehv '^(#|$)' "$golden/of1$1.hex"
  if [ -n "$vectors" ]; then
    for file in "$vectors"/{valid,malformed}-of1"$1".tsv; do
      [ ! -e "$file" ] || awk -F'\t' '{ print $NF }' "$file"
    done
  fi
}

for minor in 0 1 2 3 4 5; do
  messages "$minor" | seeds "openflow_v1_$minor" ""
  messages "$minor" | seeds openflow_any "0$minor"
done
du -sh "$here"/corpus/openflow_*
