#!/bin/sh
# Installs the pinned libchdb as bin/lib/libchdb.so and downloads it only once. npm verifies the package against the
# hash in package-lock.json. The library is verified against libchdb.sha256 on every run, because the relay loads it
# into its own process. A stamp file names the package that it came from.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/bin/lib
library=$target/libchdb.so
stamp=$target/libchdb.version

say() { printf 'libchdb: %s\n' "$*"; }
die() { printf 'libchdb: %s\n' "$*" >&2; exit 1; }

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) package=@chdb/lib-linux-x64-gnu ;;
*) die "no library is pinned for $(uname -s) on $(uname -m); set RELAY_CHDB_LIB to the path of a libchdb.so 26.7.3" ;;
esac

pin=$(awk -v entry="\"node_modules/$package\":" '
	$1 == entry { inside = 1 }
	inside && $1 == "\"version\":" { gsub(/[",]/, "", $2); version = $2 }
	inside && $1 == "\"integrity\":" { gsub(/[",]/, "", $2); print version, $2; exit }
' "$here/package-lock.json")
[ -n "$pin" ] || die "package-lock.json has no version and hash for $package"
pin="$package $pin"

# pinned reports whether a file has the hash of the library.
pinned() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$(cut -d' ' -f1 "$here/libchdb.sha256")" ]; }

if [ -f "$library" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$pin" ]; then
	if pinned "$library"; then
		say "already in $target"
		exit 0
	fi
	say "$library is not what was fetched: it is fetched again"
fi

command -v npm >/dev/null 2>&1 || die "npm is missing; install Node.js with npm, then run this again"

mkdir -p "$target"
# On the target's file system, so that the last step is an atomic rename.
work=$(mktemp -d "$target/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work/"

say "fetching $package (about 180 MB, once)"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) ||
	die "npm could not fetch $package; check the network and npm's registry setting, then run this again"
fetched=$work/node_modules/$package/libchdb.so
[ -s "$fetched" ] || die "npm left $package out: it could not be fetched, its hash differs from package-lock.json, or this system has no glibc; npm ci in deploy/chdb with --loglevel=silly says which"
pinned "$fetched" || die "what npm fetched is not the library of libchdb.sha256; a new version needs a new sum there"

say "installing $library"
rm -f "$stamp"
mv -f "$fetched" "$library"
printf '%s\n' "$pin" >"$stamp.new"
mv -f "$stamp.new" "$stamp"
say "done"
