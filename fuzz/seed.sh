#!/usr/bin/env bash
# Fills the fuzz targets' corpora from a folder of vectors: valid-of10.tsv to valid-of15.tsv and
# malformed-*, with one message per line in the last column, in hexadecimal.
set -euo pipefail
vectors=${1:?usage: fuzz/seed.sh FOLDER}
corpus=$(dirname "$0")/corpus

# seeds FILE TARGET PREFIX: a seed consists of PREFIX, the message type and the body.
seeds() {
  mkdir -p "$corpus/$2"
  awk -F'\t' -v prefix="$3" '
    length($NF) >= 16 && length($NF) < 8192 { print prefix substr($NF, 3, 2) substr($NF, 17) }' \
    "$1" | while read -r hex; do
      printf '%s' "$hex" | xxd -r -p >"$corpus/$2/$(printf '%s' "$hex" | sha1sum | cut -c1-16)"
    done
}

for kind in valid malformed; do
  for minor in 0 1 2 3 4 5; do
    file=$vectors/$kind-of1$minor.tsv
    [ -e "$file" ] || continue
    seeds "$file" "openflow_v1_$minor" ""
    seeds "$file" openflow_any "0$minor"
  done
done
du -sh "$corpus"/*
