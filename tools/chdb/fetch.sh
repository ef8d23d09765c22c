#!/bin/sh
# Installs libchdb for this machine as bin/lib/libchdb.so and downloads it only once. A package in package-lock.json is
# pinned: npm verifies it against the hash there, and every run verifies the library against libchdb.sha256, because the
# relay loads it into its own process. Of the packages for other machines only the version is fixed: npm verifies them
# against the hash that its registry gives, and later runs compare the library with the one that was fetched first.
# A stamp file names the package that the library came from.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/bin/lib
library=$target/libchdb.so
stamp=$target/libchdb.version

say() { printf 'libchdb: %s\n' "$*"; }
die() { printf 'libchdb: %s\n' "$*" >&2; exit 1; }

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) machine=linux-x64-gnu ;;
Linux-aarch64) machine=linux-arm64-gnu ;;
Darwin-arm64) machine=darwin-arm64 ;;
Darwin-x86_64) machine=darwin-x64 ;;
*) die "there is no library for $(uname -s) on $(uname -m); set RELAY_CHDB_LIB to the path of a libchdb.so 26.7.3" ;;
esac
package=@chdb/lib-$machine

# sha256 prints the SHA-256 of its input.
sha256() { if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }

pin=$(awk -v entry="\"node_modules/$package\":" '
	$1 == entry { inside = 1 }
	inside && $1 == "\"version\":" { gsub(/[",]/, "", $2); version = $2 }
	inside && $1 == "\"integrity\":" { gsub(/[",]/, "", $2); print version, $2; exit }
' "$here/package-lock.json")
if [ -n "$pin" ]; then
	pin="$package $pin"
	sum=$(cut -d' ' -f1 "$here/libchdb.sha256")
else
	version=$(sed -n 's/^ *"version": "\(.*\)",$/\1/p' "$here/package-lock.json")
	pin="$package $version unpinned"
	sum=$(sed -n "s|^$pin ||p" "$stamp" 2>/dev/null) || true
	[ -z "$sum" ] || pin="$pin $sum"
fi

# intact reports whether a file has the hash of the library.
intact() { [ "$(sha256 <"$1")" = "$sum" ]; }

if [ -f "$library" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$pin" ]; then
	if intact "$library"; then
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
cp "$here/.npmrc" "$work/"

say "fetching $package (about 180 MB, once)"
fetched=$work/node_modules/$package/libchdb.so
npm_in_work() { (cd "$work" && npm "$@" --ignore-scripts --no-audit --no-fund --loglevel=error) ||
	die "npm could not fetch $package; check the network and npm's registry setting, then run this again"; }
case "$pin" in
*" unpinned"*)
	npm_in_work install --no-save --no-package-lock "$package@$version"
	[ -s "$fetched" ] || die "npm left $package out, or it has no libchdb.so"
	now=$(sha256 <"$fetched")
	[ "${sum:-$now}" = "$now" ] || die "$package $version is not what was fetched first (SHA-256 $sum): it is $now"
	say "$package $version is not pinned here: npm compared it with its registry's hash only. SHA-256 $now"
	pin="$package $version unpinned $now"
	;;
*)
	cp "$here/package.json" "$here/package-lock.json" "$work/"
	npm_in_work ci
	[ -s "$fetched" ] || die "npm left $package out: it could not be fetched, its hash differs from package-lock.json, or this system has no glibc; npm ci in tools/chdb with --loglevel=silly says which"
	intact "$fetched" || die "what npm fetched is not the library of libchdb.sha256; a new version needs a new sum there"
	say "$package is pinned: it has the hashes of package-lock.json and libchdb.sha256"
	;;
esac

say "installing $library"
rm -f "$stamp"
mv -f "$fetched" "$library"
printf '%s\n' "$pin" >"$stamp.new"
mv -f "$stamp.new" "$stamp"
say "done"
