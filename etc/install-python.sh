#!/usr/bin/env bash
# Installs the environment for apps in Python and of Ryu, and Faucet; etc/install.sh and debian/rules call it in the source tree.
#
#   etc/install-python.sh PYTHON PREFIX DESTDIR [FAUCET]   PYTHON: target/python, FAUCET: target/faucet
#
# PREFIX/lib/rosemary/python  a virtual environment with the interpreter of PYTHON and its packages
# PREFIX/lib/rosemary/faucet  Faucet and what it needs, if FAUCET is there
#
# A file `rosemary-files` in each lists what was installed. The next installation replaces these files, and leaves those alone that an
# operator has added.
set -euo pipefail

[ $# = 3 ] || [ $# = 4 ] || { sed -n '4s/^# \?//p' "$0" >&2; exit 2; }
python=$1 prefix=$(realpath -ms -- "$2") destdir=$3 faucet=${4:-}
prefix=${prefix%/}
lib=$destdir$prefix/lib/rosemary
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
LIST=rosemary-files

# Refuses a directory that another program has made.
check() {
  if [ -d "$1" ] && [ -n "$(ls -A "$1")" ] && [ ! -f "$1/$LIST" ]; then
    echo "install: no installation of this version has made $1; move it away, then type the command again" >&2
    exit 1
  fi
}

# Removes what the earlier installation has put into a directory.
remove_own() {
  [ -f "$1/$LIST" ] || return 0
  find "$1" -name __pycache__ -prune -exec rm -rf {} +
  while IFS= read -r file; do rm -f -- "$1/$file"; done < "$1/$LIST"
  find "$1" -mindepth 1 -depth -type d -empty -delete
}

# Copies a staged directory to another. Says which files of others it replaces: a package that an operator has upgraded, for example.
place() {
  local replaced
  replaced=$(cd "$1" && find . ! -type d -printf '%P\n' | while IFS= read -r file; do
    if [ -e "$2/$file" ]; then echo "$file"; fi; done | sed 's|/.*||' | sort -u | paste -sd ' ')
  if [ -n "$replaced" ]; then
    echo "install: these in $2 were not of the earlier installation, and are replaced: $replaced" >&2
  fi
  mkdir -p "$2"
  cp -R --preserve=mode,timestamps "$1/." "$2"
}

packages() { "$1/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Removes from staged packages what installs packages, their tests, what names the directory in which they were made, and caches.
clean() {
  rm -rf "$1"/{bin,pip,pip-*.dist-info,setuptools,setuptools-*.dist-info,pkg_resources,_distutils_hack,distutils-precedence.pth} "$1"/*.dist-info/sboms
  find "$1" -name direct_url.json -delete
  find "$1" -type d \( -name __pycache__ -o -name tests \) -prune -exec rm -rf {} +
  # Some wheels have pictures and libraries that are marked as programs.
  find "$1" -type f -exec chmod a-x {} +
  # The lists of what pip would remove have no line for a file that is not there.
  "$python/bin/python3" - "$1" << 'END'
import csv, pathlib, sys

root = pathlib.Path(sys.argv[1])
for record in root.glob("*.dist-info/RECORD"):
    with record.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row and (root / row[0]).exists()]
    with record.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
END
}

env=$lib/python
check "$env"
[ -z "$faucet" ] || [ ! -f "$faucet/faucet/faucet.py" ] || check "$lib/faucet"
cp -R --preserve=mode,timestamps "$(packages "$python")" "$stage/packages"
clean "$stage/packages"

# A copy of the virtual environment would name the directory in which it was made, so this is a new one with its packages. It names
# neither DESTDIR nor the source tree, and needs no network.
remove_own "$env"
"$("$python/bin/python3" -c 'import sys; print(sys._base_executable)')" -m venv --without-pip "$env"
# What activates it in a shell is of no use here. The last line says how it was made.
rm -f "$env"/bin/[aA]ctivate*
sed -i '/^command = /d' "$env/pyvenv.cfg"
own=$(packages "$env")
place "$stage/packages" "$own"
"$env/bin/python3" -B -m rosemary._install "$destdir" > /dev/null
{
  (cd "$stage/packages" && find . ! -type d -printf "${own#"$env/"}/%P\n")
  (cd "$env" && find bin -name 'python*' -type l; find lib64 -maxdepth 0 -type l 2> /dev/null || true)
  printf '%s\n' pyvenv.cfg rosemary-python.json
} | LC_ALL=C sort > "$stage/$LIST"
install -m 644 "$stage/$LIST" "$env/$LIST"
chmod -R u=rwX,go=rX "$env"

if [ -n "$faucet" ] && [ -f "$faucet/faucet/faucet.py" ]; then
  # Libraries of another Python do not load.
  version=$("$python/bin/python3" -c 'import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())')
  if [ "$version" != "$(cat "$faucet/python.txt" 2> /dev/null)" ]; then
    echo "install: $faucet is for another Python than $python; type: make faucet, then make install" >&2
    exit 1
  fi
  cp -R --preserve=mode,timestamps "$faucet" "$stage/faucet"
  clean "$stage/faucet"
  remove_own "$lib/faucet"
  place "$stage/faucet" "$lib/faucet"
  (cd "$stage/faucet" && find . ! -type d -printf '%P\n') | LC_ALL=C sort > "$stage/$LIST"
  install -m 644 "$stage/$LIST" "$lib/faucet/$LIST"
  chmod -R u=rwX,go=rX "$lib/faucet"
elif [ -n "$faucet" ]; then
  echo "install: \`rosemary faucet\` cannot run: $faucet is missing; type: make faucet, then make install" >&2
fi
