#!/usr/bin/env bash
# Fills dist/ (make release): the binary for each architecture, its bill of materials (CycloneDX), the licences of all
# modules in it, and checksums. Each binary is built twice, the second time in another directory with an empty build
# cache: the release ends unless both are the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
architectures=${RELAY_RELEASE_ARCHITECTURES:-amd64 arm64}

[ -z "$(git status --porcelain)" ] || { echo "release: commit your changes first: a release is built from a commit" >&2; exit 1; }
COMMIT=$(git describe --always --exclude '*')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export COMMIT SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/again"
git archive HEAD | tar -x -C "$work/again"
for tree in . "$work/again"; do
	"$tree/deploy/browser/fetch.sh"
	"$tree/deploy/sdk/build.sh"
done
(cd deploy/release && CGO_ENABLED=0 GOFLAGS= go build -o "$work/bom" .)

rm -rf dist
mkdir dist
version=$(cat VERSION)
case $version in *-*) version+=+$COMMIT ;; esac
for arch in $architectures; do
	name=relay-$version-linux-$arch
	echo "release: building $name, twice"
	GOARCH=$arch deploy/release/build.sh "$PWD/dist/$name"
	GOARCH=$arch GOCACHE=$work/cache "$work/again/deploy/release/build.sh" "$work/relay-$arch"
	cmp "dist/$name" "$work/relay-$arch" || { echo "release: two builds of $name differ" >&2; exit 1; }
	"$work/bom" -binary "dist/$name" -version "$version" -sbom "dist/$name.cdx.json" -licences dist/LICENCES.txt \
		-tree "$PWD"
done
cp LICENSE CHANGELOG.md dist/
(cd dist && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
echo "release: dist/ has"
(cd dist && ls -l | sed 1d)
