#!/bin/sh
# Builds the package of the SDK into sdk/bin/package, which the program embeds. It builds only what has changed: a
# stamp has the hash of the sources. npm verifies the packages against the hashes in package-lock.json; package scripts
# do not run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
stamp=$top/sdk/bin/package.stamp
cd "$top"

say() { printf 'sdk: %s\n' "$*"; }
die() { printf 'sdk: %s\n' "$*" >&2; exit 1; }

sources=$(find sdk/js/src sdk/js/build.mjs sdk/js/package.json sdk/js/*.d.ts sdk/js/README.md LICENSE VERSION \
	tools/sdk/package-lock.json -type f | LC_ALL=C sort | xargs cksum | cksum)
if [ -f sdk/bin/package/package.json ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ]; then
	say "already in sdk/bin/package"
	exit 0
fi

command -v npm >/dev/null 2>&1 || die "npm is missing; install Node.js with npm, then run this again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/sdk" "$work/sdk/js"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work/sdk/"
cp -R sdk/js/src sdk/js/build.mjs sdk/js/package.json sdk/js/*.d.ts sdk/js/README.md "$work/sdk/js/"
cp LICENSE VERSION "$work/"
(cd "$work/sdk" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) ||
	die "npm could not fetch the packages; check the network and npm's registry setting, then run this again"
node "$work/sdk/js/build.mjs" "$work/package"
rm -rf "$stamp" sdk/bin/package
cp -R "$work/package" sdk/bin/package
printf '%s\n' "$sources" >"$stamp"
say "built version $(cat VERSION)"
