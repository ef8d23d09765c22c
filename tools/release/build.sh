#!/bin/sh
# Builds the relay for a release: build.sh FILE, or with a DIRECTORY behind it the program there. The same commit, Go
# version, GOOS and GOARCH give the same bytes in every directory: no path, no time and no state of the repository gets
# into the file. COMMIT is appended to a pre-release.
# TAGS=relay_static leaves the embedded ClickHouse out: then the program needs no glibc, as that of the image.
set -eu
cd "$(dirname "$0")/../.."
[ -f sdk/bin/package/package.json ] || { echo "release: the package of the SDK is missing: run tools/sdk/build.sh" >&2; exit 1; }
export CGO_ENABLED=0 GOOS="${GOOS:-linux}" GOFLAGS= GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOTOOLCHAIN=local
exec go build -C "${2:-.}" -trimpath -buildvcs=false -tags "${TAGS:-}" -ldflags "-s -w -buildid= -X main.commit=${COMMIT:-}" -o "$1" .
