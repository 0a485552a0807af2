#!/bin/sh
# Makes the virtual environment for apps in Python: make-python.sh DIR PROFILE [PYTHON [TARGET]].
#
# DIR gets the SDK, and rosemary-ryu if the project has it. PROFILE is dev or release. TARGET is cargo's target directory.
set -eu
dir=$1 profile=$2 python=${3:-python3} target=${4:-target}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
	echo "make: apps in Python need Python 3.10 or later, and $python is older; name another: make python PYTHON=..." >&2
	exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || {
	echo "make: the module venv is missing; type: apt-get install python3-venv" >&2
	exit 1
}
[ -x "$dir/bin/python3" ] || "$python" -m venv "$dir"
build=$dir/build
[ -x "$build/bin/maturin" ] || {
	echo "make: installing maturin, which builds the SDK, into $build" >&2
	"$python" -m venv "$build"
	"$build/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.7,<2'
}
rm -rf "$dir/wheels"
"$build/bin/maturin" build --quiet --profile "$profile" --manifest-path python/Cargo.toml \
	--interpreter "$dir/bin/python3" --target-dir "$target" --out "$dir/wheels"
# Not with bin/pip: its first line names the place where the environment was made, which may be another one by now.
"$dir/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$dir"/wheels/*.whl
if [ -f ryu/requirements.txt ]; then
	"$dir/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement ryu/requirements.txt
	"$dir/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall ./ryu
fi
"$dir/bin/python3" -m rosemary._install
