#!/bin/sh
# Fetches what the tests of Ryu's apps need: make-ryu.sh DIR [PYTHON].
#
# DIR/ryu gets Ryu 4.34 with its apps. Nothing of it becomes part of this project.
# Ryu's metadata can only be built by an old setuptools.
set -eu
dir=$1 python=${2:-target/python/bin/python3}

[ -x "$python" ] || {
	echo "make: $python is missing; type: make python" >&2
	exit 1
}
mkdir -p "$dir"
if [ ! -f "$dir/ryu/app/simple_switch_13.py" ]; then
	echo "make: installing Ryu 4.34, without its dependencies, into $dir" >&2
	echo 'setuptools<58' >"$dir/constraint.txt"
	PIP_CONSTRAINT="$dir/constraint.txt" "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
		--target "$dir" 'ryu==4.34'
fi
