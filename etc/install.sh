#!/usr/bin/env bash
# Installs Rosemary; `make install` calls it in the source tree. Packages of distributions pass DESTDIR.
#
#   etc/install.sh BUILD PREFIX DESTDIR [PYTHON [FAUCET]]   BUILD: target/release, PREFIX: /usr, DESTDIR: empty, or the root of a
#                                                  package, PYTHON: target/python, FAUCET: target/faucet
#
# PREFIX/bin                  rosemary, ofbench
# PREFIX/libexec/rosemary     the programs that the monitor starts
# PREFIX/lib/rosemary/apps    the apps that ship with Rosemary, by the names in the configuration
# PREFIX/lib/rosemary/librosemary_wanted.a   wanted flows for apps in C
# PREFIX/lib/rosemary/python  the virtual environment for apps in Python and of Ryu, if there is one (etc/install-python.sh)
# PREFIX/lib/rosemary/faucet  Faucet, if there is a virtual environment and Faucet
# PREFIX/lib/rosemary/MANIFEST, MANIFEST.python, recovery   the manifests of the release and the recovery copy (docs/verified-start.md)
# PREFIX/lib/rosemary/rosemary.toml   the configuration with the default of each key
# PREFIX/etc/rosemary/release.pub     the key that signed the manifests; /etc/rosemary/release.pub if PREFIX is /usr
# PREFIX/share/man            the manual pages of sections 1 and 5
# PREFIX/include/rosemary     the headers for apps in C
# PREFIX/share/rosemary/sdk   the sources of the SDK for apps in Rust, and the lock file with the versions of its packages
#
# Environment:
#   RELEASE_KEY, RELEASE_PASSWORD_FILE   sign the manifests with this secret key of `rosemary key new`. Without a key, an installation
#                  without DESTDIR is signed with a new key, which is forgotten, and one with DESTDIR is not signed.
#   RELEASE        the number of the release, greater than that of all before; without it, it follows from the version
#   RELEASE=none   make no manifest and no recovery copy
set -euo pipefail

(($# >= 3 && $# <= 5)) || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 2; }
build=$1 prefix=$2 destdir=$3 python=${4:-} faucet=${5:-}
# The prefix is in the systemd unit, where other letters have a meaning.
[[ $prefix =~ ^/[A-Za-z0-9/._+-]*$ ]] || {
  echo "install: PREFIX must begin with / and have letters, digits and ._+- only, and is '$prefix'" >&2
  exit 2
}
prefix=$(realpath -ms -- "$prefix")
prefix=${prefix%/}
# Programs that run in other directories write below it.
if [ -n "$destdir" ]; then
  mkdir -p -- "$destdir"
  destdir=$(realpath -- "$destdir")
fi
to=$destdir$prefix

programs=(rosemary-monitor rosemary-kernel rosemary-zone rosemary-security rosemary-log rosemary-storage rosemary-broker rosemary-ovsdb rosemary-history rosemary-northbound rosemary-verify)
# The apps are the examples of their crate.
mapfile -t apps < <(sed -n '/^\[\[example\]\]/{n;s/^name = "\(.*\)"/\1/p}' crates/apps/Cargo.toml)
[ ${#apps[@]} -gt 0 ] || { echo "install: crates/apps/Cargo.toml names no app" >&2; exit 1; }
crates=(names openflow sys routes series sdk)

for file in rosemary ofbench "${programs[@]}" examples/librosemary_wanted.a "${apps[@]/#/examples/lib}"; do
  [[ $file = examples/*.a || $file != examples/* ]] || file=$file.so
  [ -f "$build/$file" ] || { echo "install: $build/$file is missing; type: make release" >&2; exit 1; }
done

# First, because it may refuse.
if [ -n "$python" ] && [ -x "$python/bin/python3" ]; then
  etc/install-python.sh "$python" "$prefix" "$destdir" "$faucet"
elif [ -n "$python" ]; then
  echo "install: apps in Python cannot run: $python is missing; type: make python PYTHON_PROFILE=release, then make install" >&2
fi

install -d "$to"/{bin,libexec/rosemary,lib/rosemary/apps,lib/systemd/system,include/rosemary} \
  "$to"/share/{man/man1,man/man5,doc/rosemary,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
install -m 755 "$build/rosemary" "$build/ofbench" "$to/bin"
install -m 755 "${programs[@]/#/$build/}" "$to/libexec/rosemary"
wasm=("$build"/rosemary-wasm "$build"/rosemary-compile "$build"/rosemary-kernel-wasm)
if [ -f "${wasm[0]}" ] && [ -f "${wasm[1]}" ] && [ -f "${wasm[2]}" ]; then
  install -m 755 "${wasm[@]}" "$to/libexec/rosemary"
else
  echo "install: apps in WebAssembly cannot run: their programs are missing; type: make wasm PROFILE=release, then make install" >&2
fi
for app in "${apps[@]}"; do
  install -m 644 "$build/examples/lib$app.so" "$to/lib/rosemary/apps/${app//_/-}.so"
done
install -d "$to/include/rosemary/wasm"
install -m 644 crates/sdk/c/*.h "$to/include/rosemary"
install -m 644 crates/sdk/c/wasm/* "$to/include/rosemary/wasm"
# Without line tables it has a third of the size; names of functions stay.
install -m 644 "$build/examples/librosemary_wanted.a" "$to/lib/rosemary"
! command -v strip >/dev/null ||
  strip --strip-debug --enable-deterministic-archives "$to/lib/rosemary/librosemary_wanted.a"
install -m 644 etc/rosemary.toml etc/firewall.toml etc/rosemary.rules.yml etc/grafana-dashboard.json LICENSE README.md "$to/share/doc/rosemary"
sed "s|/usr/bin/rosemary|$prefix/bin/rosemary|" etc/rosemary.service > "$to/lib/systemd/system/rosemary.service"
"$build/rosemary" man "$to/share/man/man1"
"$build/ofbench" man "$to/share/man/man1"
mv "$to"/share/man/man1/*.5 "$to/share/man/man5"
"$build/rosemary" completions bash > "$to/share/bash-completion/completions/rosemary"
"$build/rosemary" completions zsh > "$to/share/zsh/site-functions/_rosemary"
"$build/rosemary" completions fish > "$to/share/fish/vendor_completions.d/rosemary.fish"

# The SDK is a workspace of its own: the manifest of this one, with the crates that the SDK consists of.
sdk=$to/share/rosemary/sdk
rm -rf "$sdk"
install -d "$sdk/crates"
for crate in "${crates[@]}"; do
  cp -R "crates/$crate" "$sdk/crates/"
done
install -m 644 Cargo.lock LICENSE "$sdk"
members=$(printf '"crates/%s", ' "${crates[@]}")
sed -e '/^members = \[/,/^\]/c\members = ['"${members%, }"']' Cargo.toml > "$sdk/Cargo.toml"
chmod -R u=rwX,go=rX "$sdk"

install -m 644 etc/rosemary.toml "$to/lib/rosemary"
sed "s|/usr/libexec|$prefix/libexec|" etc/verified-start.conf > "$to/share/doc/rosemary/verified-start.conf"
chmod 644 "$to/share/doc/rosemary/verified-start.conf"

# Makes the manifest of a part, with the number of the release if there is one.
manifest() { "$build/rosemary" release make "$to" "$@" ${RELEASE:+--number "$RELEASE"} > /dev/null; }

if [ "${RELEASE:-}" != none ]; then
  files=(bin/rosemary bin/ofbench "${programs[@]/#/libexec/rosemary/}" lib/rosemary/rosemary.toml)
  for app in "${apps[@]}"; do files+=("lib/rosemary/apps/${app//_/-}.so"); done
  [ ! -f "$to/libexec/rosemary/rosemary-wasm" ] || files+=(libexec/rosemary/rosemary-wasm libexec/rosemary/rosemary-compile)
  rm -rf "$to/lib/rosemary/recovery"
  manifest "${files[@]/#/--file=}"
  if [ -n "$python" ] && [ -x "$python/bin/python3" ]; then
    etc/python-manifest.sh "$build/rosemary" "$to"
  fi
  key=$to/etc/rosemary/release.pub
  [ "$prefix" != /usr ] || key=$destdir/etc/rosemary/release.pub
  if [ -n "${RELEASE_KEY:-}" ]; then
    "$build/rosemary" release sign "$to" --public "$key" --key "$RELEASE_KEY" \
      ${RELEASE_PASSWORD_FILE:+--password-file "$RELEASE_PASSWORD_FILE"} > /dev/null
  elif [ -z "$destdir" ]; then
    "$build/rosemary" release sign "$to" --public "$key" --new-key > /dev/null
  else
    echo "install: the manifest is not signed, as RELEASE_KEY names no key" >&2
  fi
fi

echo "install: Rosemary is in $to; next: $prefix/bin/rosemary doctor, then $prefix/bin/rosemary up"
