#!/usr/bin/env bash
# Runs every fuzz target: fuzz.sh [seconds per target, default 20]. Every `go test` runs the seed corpora.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	for target in $(grep -h '^func Fuzz' "$dir"/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do
		echo "== $dir $target"
		go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 20x
	done
done
