#!/bin/sh
# Runs the unit tests of rosemary-ryu, without Rosemary: test-ryu.sh RYU [PYTHON]. RYU is the directory of etc/make-ryu.sh.
set -eu
ryu=$1 python=${2:-target/python/bin/python3}
[ -d "$ryu/pytest" ] || "$python" -m pip install --quiet --disable-pip-version-check --target "$ryu/pytest" 'pytest>=8,<10'
exec env PYTHONPATH="ryu:$ryu:$ryu/pytest" "$python" -m pytest --quiet -p no:cacheprovider ryu/tests
