#!/usr/bin/env bash
# Runs every fuzz target: fuzz.sh [seconds per target, default 20]. Every `go test` runs the seed corpora. With
# RELAY_FUZZ_TABLE=deploy/fuzz.md it adds the minutes of each target that found nothing to that table, begins with the
# targets that have the fewest, and ends after RELAY_FUZZ_MINUTES (0: when each has run once): hours add up.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
table=${RELAY_FUZZ_TABLE:-}

# minutes TARGET prints how long a target has run, according to the table.
minutes() {
	[ -n "$table" ] || { echo 0; return; }
	awk -F ' *[|] *' -v target="$1" '$2 == target {n = $3} END {print n + 0}' "$table"
}

# add TARGET adds this run to the table.
add() {
	local sum
	[ -n "$table" ] || return 0
	sum=$(awk -v before="$(minutes "$1")" -v seconds="$seconds" 'BEGIN {print before + seconds / 60}')
	{ grep -v "^| $1 |" "$table"; echo "| $1 | $sum | $(git rev-parse --short HEAD) |"; } >"$table.new"
	{ grep -v '^| \./' "$table.new" || true; grep '^| \./' "$table.new" | sort; } >"$table"
	rm "$table.new"
}

grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	for target in $(grep -h '^func Fuzz' "$dir"/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do
		echo "$(minutes "$dir $target") $dir $target"
	done
done | sort -sn | while read -r _ dir target; do
	if [ "${RELAY_FUZZ_MINUTES:-0}" != 0 ] && [ $((SECONDS / 60)) -ge "$RELAY_FUZZ_MINUTES" ]; then
		break
	fi
	echo "== $dir $target"
	go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 20x
	add "$dir $target"
done
