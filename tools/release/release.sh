#!/usr/bin/env bash
# Fills dist/ from the last commit (make release): programs, images, Helm chart, SDK, tools, clients, Terraform provider,
# bills of materials, licences, release notes and checksums. Everything is made twice, the second time in another directory
# with an empty build cache: the release ends unless both are the same. docs/contribute/release.md says when to run it.
set -euo pipefail
cd "$(dirname "$0")/../.."
architectures=${RELAY_RELEASE_ARCHITECTURES:-amd64 arm64}

die() { echo "release: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || die "commit your changes first: a release is built from a commit"
COMMIT=$(git describe --always --exclude '*')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export COMMIT SOURCE_DATE_EPOCH
number=$(cat VERSION)
version=$number
case $number in
*-*) # a rehearsal: the program says of which commit it is
	version+=+$COMMIT
	;;
*)
	tagged=$(git rev-parse -q --verify "refs/tags/v$number^{commit}" || true)
	[ -z "$tagged" ] || [ "$tagged" = "$(git rev-parse HEAD)" ] || die "v$number is another commit, $tagged"
	! grep -q '^# .*unreleased' "docs/releases/$number.md" || die "docs/releases/$number.md says unreleased"
	echo "release: checking CHANGELOG.md, test/released/$number and the deprecations"
	CGO_ENABLED=0 go test -count=1 -run '^Test(Changelog|Released|Frozen|Deprecations)' ./test/rules ./test/released ./api
	;;
esac

work=$(mktemp -d)
library=$PWD/bin/lib/libchdb.so
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/again" "$work/tools" "$work/dist"
git archive HEAD | tar -x -C "$work/again"
(cd tools && export CGO_ENABLED=0 GOFLAGS= && go test ./release/... && go build -o "$work/tools" ./release ./release/image \
	github.com/goreleaser/nfpm/v2/cmd/nfpm)
# The packages have the embedded ClickHouse in them, which is pinned for x86-64 alone.
[ "$(uname -m)" != x86_64 ] || tools/chdb/fetch.sh

# fill TREE DIRECTORY makes everything but the checksums.
fill() {
	local tree=$1 out=$2 arch name
	local -a packaged
	"$tree/tools/sdk/build.sh"
	for arch in $architectures; do
		name=relay-$version-linux-$arch
		echo "release: building $name"
		GOARCH=$arch "$tree/tools/release/build.sh" "$out/$name"
		packaged=()
		[ "$arch" != amd64 ] || [ "$(uname -m)" != x86_64 ] || packaged=(-library "$library" -stamp "${library%.so}.version")
		"$work/tools/release" -binary "$out/$name" -version "$version" -sbom "$out/$name.cdx.json" \
			-licences "$out/LICENCES.txt" "${packaged[@]}"
		GOARCH=$arch TAGS=relay_static "$tree/tools/release/build.sh" "$work/relay"
		"$work/tools/image" -program "$work/relay" -arch "$arch" -version "$version" -tag "eventrelay/relay:$number" \
			-out "$out/$name.oci.tar"
		[ ${#packaged[@]} = 0 ] || {
			"$tree/tools/release/package.sh" "$work/tools/nfpm" "$out/$name" "$library" "$out/LICENCES.txt" "$arch" "$version"
			"$tree/tools/release/formula.sh" "$out/$name.tar.gz" "$version" >"$out/relay.rb"
		}
	done
	"$tree/tools/chart/package.sh" "$out"
	"$tree/sdk/clients.sh" install
	"$tree/sdk/pack.sh" "$out" "$version"
	(
		cd "$out"
		"$work/tools/release" -version "$version" -sbom "eventrelay-clients-$number.cdx.json" \
			-lock "$tree/sdk/ts/package-lock.json" \
			"pkg:golang/github.com/eventrelay/relay/sdk/go@v$number=$(find goproxy -name '*.zip')" \
			"pkg:npm/%40eventrelay/client@$number=$(echo eventrelay-client-*.tgz)" \
			"pkg:npm/%40eventrelay/sdk@$number=$(echo eventrelay-sdk-*.tgz)" \
			"pkg:pypi/eventrelay@$number=$(echo eventrelay-*.whl)" \
			"pkg:pypi/eventrelay@$number=$(echo eventrelay-[0-9]*.tar.gz)"
	)
	"$tree/tools/release/provider.sh" "$work/tools/release" "$out"
	cp "$tree/docs/releases/${number%%-*}.md" "$out/RELEASE-NOTES.txt"
	cp "$tree/LICENSE" "$tree/CHANGELOG.md" "$out"
	(cd "$out" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum) >"$out.sums"
}

rm -rf dist
mkdir dist
fill "$PWD" "$PWD/dist"
mv dist.sums dist/SHA256SUMS
echo "release: the same again, without a cache"
GOCACHE=$work/cache fill "$work/again" "$work/dist"
diff -u dist/SHA256SUMS "$work/dist.sums" || die "two builds differ"
(cd dist && ls -l | sed 1d)
echo "release: $(wc -l <dist/SHA256SUMS) files made twice with equal checksums, $version"
