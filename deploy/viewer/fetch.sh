#!/bin/sh
# Installs the pinned viewer of the reference page in api/viewer, where the build embeds it, and downloads it only once:
# a stamp file names its package. npm verifies the package against the hash in package-lock.json; package scripts do
# not run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/api/viewer
files="swagger-ui-bundle.js swagger-ui.css"
stamp=$target/swagger-ui.stamp

say() { printf 'viewer: %s\n' "$*"; }
die() { printf 'viewer: %s\n' "$*" >&2; exit 1; }

if [ -f "$target/swagger-ui-bundle.js" ] && cmp -s "$here/package-lock.json" "$stamp"; then
	say "already in $target"
	exit 0
fi

command -v npm >/dev/null 2>&1 || die "npm is missing; install Node.js with npm, then run this again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work/"

say "fetching swagger-ui-dist (about 3 MB, once)"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) ||
	die "npm could not fetch swagger-ui-dist; check the network and npm's registry setting, then run this again"
rm -f "$stamp"
for file in $files; do
	cp "$work/node_modules/swagger-ui-dist/$file" "$target/$file"
done
cp "$work/node_modules/swagger-ui-dist/LICENSE" "$target/swagger-ui.LICENSE"
cp "$here/package-lock.json" "$stamp"
say "done"
