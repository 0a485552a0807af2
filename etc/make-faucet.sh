#!/bin/sh
# Installs Faucet 1.10.12 and what it needs: make-faucet.sh DIR [PYTHON].
#
# Nothing of it becomes part of this project. `rosemary faucet` looks for it beside `target/python`.
set -eu
dir=$1 python=${2:-target/python/bin/python3}
wanted=ryu/requirements-faucet.txt

[ -x "$python" ] || {
	echo "make: $python is missing; type: make python" >&2
	exit 1
}
# Libraries of another Python do not load, so its version is part of the cache's key.
version=$("$python" -c 'import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())')
if cmp -s "$wanted" "$dir/requirements.txt" && [ "$version" = "$(cat "$dir/python.txt" 2>/dev/null)" ]; then exit; fi
"$python" -c 'import os, sysconfig as it; open(os.path.join(it.get_path("include"), "Python.h"))' 2>/dev/null || {
	echo "make: Python's headers are missing, which a library of Faucet needs; type: apt-get install python3-dev" >&2
	exit 1
}
echo "make: installing Faucet 1.10.12 into $dir" >&2
rm -rf "$dir"
# With DEBINSTALL, Faucet's setup writes no files below /etc and /var.
DEBINSTALL=1 "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target "$dir" \
	--requirement "$wanted"
cp "$wanted" "$dir/requirements.txt"
printf '%s\n' "$version" > "$dir/python.txt"
