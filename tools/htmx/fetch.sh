#!/bin/sh
# Installs what browsers load, where the build embeds it: htmx in dashboard/static. It downloads only once: a stamp
# file names the packages. npm verifies them against the hashes in package-lock.json; package scripts do not run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
stamp=$top/dashboard/static/htmx.stamp
# from: a file in node_modules; to: its place in the repository, which .gitignore names
files="htmx.org/dist/htmx.min.js:dashboard/static/htmx.min.js
htmx.org/LICENSE:dashboard/static/htmx.LICENSE"

say() { printf 'browser: %s\n' "$*"; }
die() { printf 'browser: %s\n' "$*" >&2; exit 1; }

missing=
for file in $files; do
	[ -f "$top/${file#*:}" ] || missing=$file
done
if [ -z "$missing" ] && cmp -s "$here/package-lock.json" "$stamp"; then
	say "already in dashboard/static"
	exit 0
fi

command -v npm >/dev/null 2>&1 || die "npm is missing; install Node.js with npm, then run this again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work/"

say "fetching htmx.org (once)"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) ||
	die "npm could not fetch the packages; check the network and npm's registry setting, then run this again"
rm -f "$stamp"
for file in $files; do
	cp "$work/node_modules/${file%%:*}" "$top/${file#*:}"
done
cp "$here/package-lock.json" "$stamp"
say "done"
