#!/usr/bin/env bash
# Writes test/released/NUMBER, the number of VERSION without -dev: what this version writes, for later versions to read. A
# release does it once, before its commit; nothing there changes afterwards.
set -euo pipefail
cd "$(dirname "$0")/../.."
number=$(cut -d - -f 1 VERSION)
if [ -n "$(git tag -l "v$number")" ] || grep -q "^## $number - " CHANGELOG.md; then
	echo "release: $number is released, and test/released/$number stays as it is" >&2
	exit 1
fi
mkdir -p "test/released/$number"
RELAY_FREEZE=$number CGO_ENABLED=0 go test -count=1 -run '^TestReleased' ./test/released ./pkg/config ./store/schema ./command ./api
cd "test/released/$number"
chmod 644 ./*
find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
