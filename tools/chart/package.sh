#!/bin/sh
# Packs the chart: package.sh DIRECTORY writes eventrelay-VERSION.tgz there. The same files and SOURCE_DATE_EPOCH give the
# same bytes. helm package writes the time of the files.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/../../deploy/chart"
version=$(cat ../../VERSION)
tar -c --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	--mode=u=rwX,go=rX eventrelay | gzip -n -9 >"$out/eventrelay-$version.tgz"
