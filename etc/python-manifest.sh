#!/usr/bin/env bash
# Makes the manifest of the environment for apps in Python, and its recovery copy; etc/install.sh and debian/rules call it.
#
#   etc/python-manifest.sh ROSEMARY ROOT   ROSEMARY: the command, ROOT: DESTDIR and PREFIX
set -euo pipefail

[ $# = 2 ] || { sed -n '4s/^# \?//p' "$0" >&2; exit 2; }
rosemary=$1 root=$2
dirs=(lib/rosemary/python)
[ ! -d "$root/lib/rosemary/faucet" ] || dirs+=(lib/rosemary/faucet)
"$rosemary" release make "$root" --part python "${dirs[@]/#/--file=}" "${dirs[@]/#/--whole=}" \
  ${RELEASE:+--number "$RELEASE"} > /dev/null
