#!/bin/sh
# Fetches what the test with a client of Ryu's REST interface needs: make-ryurest.sh DIR [PYTHON].
#
# DIR/ryurest gets ryurest 0.1, and DIR the library requests. Nothing of it becomes part of this project.
# ryurest is for Python 2: `import ryurest` fails with its two imports from the same package, and with its print statements. fissix, a
# copy of Python's own 2to3, rewrites these and nothing else.
set -eu
dir=$1 python=${2:-target/python/bin/python3}

[ -x "$python" ] || {
	echo "make: $python is missing; type: make python" >&2
	exit 1
}
if [ ! -f "$dir/translated" ]; then
	echo "make: installing ryurest 0.1 into $dir" >&2
	rm -rf "$dir"
	mkdir -p "$dir"
	"$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-warn-conflicts --target "$dir" \
		'ryurest==0.1' 'requests>=2.32,<3' 'fissix==24.4.24'
	PYTHONPATH="$dir" "$python" -m fissix --fix print --fix import --write --nobackups --no-diffs "$dir/ryurest" 2>/dev/null
	PYTHONPATH="$dir" "$python" -c 'import ryurest'
	: >"$dir/translated"
fi
