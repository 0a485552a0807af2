#!/usr/bin/env bash
# Builds the page; `make ui` calls it. The packages of npm and the result are in target/ui, not in the source tree.
#
#   ui/build.sh            target/ui/dist: the files that the next build of rosemary-northbound contains
set -euo pipefail
cd "$(dirname "$0")/.."
work=target/ui/work
mkdir -p "$work"
find "$work" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
cp -R ui/. "$work"
cd "$work"

# Debian bookworm has 18.19 or 18.20. The packages of the page name 18.12 as the oldest.
command -v node >/dev/null && command -v npm >/dev/null || {
  echo "ui: Node.js and npm are missing; install Node.js 18.12 or newer, on Debian: apt-get install nodejs npm" >&2
  exit 1
}
node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 18 || (major == 18 && minor >= 12) ? 0 : 1)' || {
  echo "ui: Node.js 18.12 or newer is needed, and $(command -v node) is $(node --version); name a newer one first in PATH" >&2
  exit 1
}
# The packages are those of the lock file; they are installed again when it changes.
if ! cmp -s package-lock.json node_modules/.rosemary-lock; then
  npm ci --ignore-scripts --no-audit --no-fund
  cp package-lock.json node_modules/.rosemary-lock
fi
npm run --silent check
# Files of an earlier build must not stay beside the new ones.
rm -rf ../dist
ROSEMARY_UI_OUT=../dist npm run --silent build
echo "ui: the page is in target/ui/dist; make build puts it into rosemary-northbound"
