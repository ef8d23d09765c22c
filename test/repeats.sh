#!/usr/bin/env bash
# Runs the 20 longest tests of the last `make test` ten times each, a package at a time (make torture PART=repeats), to find
# those that fail by chance: repeats.sh [times]. bin/slowest.txt names them, with the step and so whether the race
# detector is used.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-10}
[ -s bin/slowest.txt ] || { echo "repeats: run make test first: it writes bin/slowest.txt" >&2; exit 1; }
export GORACE="atexit_sleep_ms=10 ${GORACE:-}"
sed -n 1,20p bin/slowest.txt | awk -F '\t' '
	{
		group = $3 " " ($5 == "raced" || $5 == "whole_race")
		tests[group] = tests[group] (tests[group] ? "|" : "") $4
	}
	END { for (group in tests) print group, tests[group] }' | sort | while read -r package race tests; do
	flags=(-vet=off -count="$times" -timeout 4h)
	[ "$race" = 0 ] || flags+=(-race)
	echo "== $package $tests"
	CGO_ENABLED=$race RELAY_TEST_WITH=processes go test "${flags[@]}" -run "^($tests)\$" "$package"
done
