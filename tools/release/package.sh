#!/usr/bin/env bash
# Makes an archive, a package for Debian and one for Red Hat of a built program with the embedded ClickHouse beside it:
# package.sh NFPM PROGRAM LIBRARY LICENCES ARCH VERSION writes PROGRAM.tar.gz, PROGRAM.deb and PROGRAM.rpm. The same
# inputs and SOURCE_DATE_EPOCH give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
nfpm=$1 program=$2 library=$3 licences=$4
export ARCH=$5 VERSION=$6
name=$(basename "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FILES=$work/$name
mkdir -p "$FILES/lib"
install -m 755 "$program" "$FILES/relay"
install -m 644 "$library" "$FILES/lib/libchdb.so"
install -m 644 LICENSE "$licences" "$FILES"
# Times of directories and files get into all three.
find "$work" deploy/linux -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -c "$name" | gzip -n >"$program.tar.gz"
for format in deb rpm; do
	"$nfpm" package -f deploy/linux/nfpm.yaml -p "$format" -t "$program.$format"
done
