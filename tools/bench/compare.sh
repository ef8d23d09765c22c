#!/usr/bin/env bash
# Compares the working tree with another revision: builds both, runs the scenario alternately, then the Go benchmarks.
#
#   make bench-compare BASE=main~5
#
# TURNS (5), SCENARIO ("flat --posters 32 --duration 20s"), PACKAGES and COUNT (6) of the Go benchmarks; PACKAGES= skips
# them.
set -euo pipefail
cd "$(dirname "$0")/../.."
base=${BASE:?say which revision to compare with: make bench-compare BASE=<revision>}
turns=${TURNS:-5} scenario=${SCENARIO:-flat --posters 32 --duration 20s} count=${COUNT:-6}
packages=${PACKAGES-./pkg/sign ./pkg/event ./pkg/web ./ingest ./dispatcher}
# A tool of the Go project that only reads benchmark output, so it is no dependency of the module.
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

revision=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "no revision $base" >&2; exit 1; }
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
git worktree add --quiet --detach "$work/base" "$revision"
mkdir -p "$work/base/bin"
ln -s "$PWD/bin/lib" "$work/base/bin/lib"
export RELAY_CHDB_LIB=${RELAY_CHDB_LIB:-$PWD/bin/lib/libchdb.so}

# Revisions before the file VERSION set main.version; the linker ignores a name that does not exist.
build() {
	local commit
	commit=$(git -C "$1" describe --always --dirty --exclude '*')
	(cd "$1" && CGO_ENABLED=0 go build -ldflags "-X main.version=$commit -X main.commit=$commit" -o "$2" .)
}
build "$work/base" "$work/relay-base"
build . "$work/relay"
CGO_ENABLED=0 go build -C tools/bench -o "$work/relay-bench" ./relay-bench

read -ra words <<<"$scenario"
"$work/relay-bench" compare --base "$work/relay-base" --turns "$turns" "${words[@]}"

[ -n "$packages" ] || exit 0
echo
echo "Go benchmarks, $count runs each in turns:"
benchmarks() {
	# Packages that one revision does not have, or whose benchmarks fail there, are not in the table.
	for package in $packages; do
		[ -d "$1/$package" ] || continue
		(cd "$1" && CGO_ENABLED=0 go test -run '^$' -bench . -benchmem -benchtime 0.3s "$package") >>"$2" || echo "benchmarks of $package failed in $1" >&2
	done
}
for ((i = 0; i < count; i++)); do
	benchmarks "$work/base" "$work/base.txt"
	benchmarks . "$work/new.txt"
done
(cd "$work" && go run "$benchstat" base=base.txt new=new.txt)
