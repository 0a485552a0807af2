#!/bin/sh
# Fetches what the tests of Ryu's apps need: make-ryu.sh DIR [PYTHON].
#
# DIR/ryu gets Ryu 4.34 with its apps, DIR/faucet Faucet 1.10.12 with its libraries. Nothing of them becomes part of this project.
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
if [ ! -f "$dir/faucet/faucet/faucet.py" ]; then
	echo "make: installing Faucet 1.10.12 into $dir/faucet" >&2
	"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$dir/faucet" \
		faucet==1.10.12 ruamel.yaml==0.18.16 prometheus_client==0.24.1 networkx==3.6.1 chewie==0.0.25 beka==0.4.2 \
		pytricia==1.3.0 transitions==0.9.3
fi
