#!/usr/bin/env bash
# Runs fuzz targets: fuzz.sh [seconds per target, default 20] [pattern of "directory target", default all]. As many run
# side by side as there are processors, with one worker each. Every `go test` runs the seed corpora. With
# RELAY_FUZZ_TABLE=test/fuzz.md it adds the minutes of each target that found nothing to that table, begins with the
# targets that have the fewest, and starts none after RELAY_FUZZ_MINUTES (0: each runs once): hours add up.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
pattern=${2:-.}
table=${RELAY_FUZZ_TABLE:-}
lanes=$(nproc)

# minutes TARGET prints how long a target has run, according to the table.
minutes() {
	[ -n "$table" ] || { echo 0; return; }
	awk -F ' *[|] *' -v target="$1" '$2 == target {n = $3} END {print n + 0}' "$table"
}

# add TARGET adds this run to the table.
add() {
	local sum
	[ -n "$table" ] || return 0
	{
		flock 9
		sum=$(awk -v before="$(minutes "$1")" -v seconds="$seconds" 'BEGIN {printf "%.1f", before + seconds / 60}')
		{ grep -v "^| $1 |" "$table"; echo "| $1 | $sum | $(git rev-parse --short HEAD) |"; } >"$table.new"
		{ grep -v '^| \./' "$table.new" || true; grep '^| \./' "$table.new" | LC_ALL=C sort; } >"$table"
		rm "$table.new"
	} 9<test
}

# fuzz DIRECTORY TARGET runs a target. Go sometimes reports the end of -fuzztime as a failure (golang/go#75804); then it
# names no failing input.
fuzz() {
	local output
	output=$(mktemp)
	if go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "${seconds}s" -fuzzminimizetime 20x -parallel 1 </dev/null |
		tee "$output" || { grep -q '^ *context deadline exceeded$' "$output" && ! grep -q 'Failing input' "$output"; }; then
		rm "$output"
		return 0
	fi
	rm "$output"
	echo "fuzz: failed: $1 $2"
	return 1
}

# lane runs the targets of standard input one after the other; a failure ends with 1 after all of them.
lane() {
	local dir target result=0
	while read -r dir target; do
		if [ "${RELAY_FUZZ_MINUTES:-0}" != 0 ] && [ $((SECONDS / 60)) -ge "$RELAY_FUZZ_MINUTES" ]; then
			break
		fi
		echo "== $dir $target"
		if fuzz "$dir" "$target"; then add "$dir $target"; else result=1; fi
	done
	return $result
}

targets=$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	for target in $(grep -h '^func Fuzz' "$dir"/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do
		echo "$(minutes "$dir $target") $dir $target"
	done
done | sort -sn | cut -d' ' -f2- | grep -E -- "$pattern")

running=()
for n in $(seq 0 $((lanes - 1))); do
	awk -v n="$n" -v lanes="$lanes" 'NR % lanes == n' <<<"$targets" | lane &
	running+=($!)
done
failed=0
for process in "${running[@]}"; do
	wait "$process" || failed=1
done
exit $failed
