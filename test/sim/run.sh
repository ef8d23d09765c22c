#!/usr/bin/env bash
# Runs the simulation: worlds of seeds, each in a process of its own, one for each core.
#
#   test/sim/run.sh FROM TO [flags]   the seeds from FROM to TO; a flag is one of: -nodes N, -minutes N, -quiet,
#                                     -machine (one node without Kafka, on a disk in memory)
#   test/sim/run.sh SEED -trace       one seed, with its trace; it is the same each time
#
# A world whose promises did not hold prints its trace below bin/sim and ends the run with an error. The program is
# built with a runtime whose choices follow from the seed (overlay/main.go).
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/bin/sim
export CGO_ENABLED=0 GOFLAGS=-trimpath

# build makes the program. No package of the project is in a folder whose name begins with _.
build() {
	mkdir -p "$out"
	go run ./test/sim/overlay "$out/_overlay"
	go test -tags sim -overlay "$out/_overlay/overlay.json" -vet=off -c -o "$out/relay-sim" ./test/sim
}

# one SEED [flags] runs one world. One processor and no collections: see overlay/main.go. A world of half an hour takes 1
# GB; the bound is for one that runs wild.
one() {
	ulimit -v 12000000
	GOMAXPROCS=1 GOGC=off "$out/relay-sim" -test.run TestSeed -test.timeout 10m -seed "$@"
}

# world SEED [flags] is one for a run of many: it prints a line, and keeps the trace of a failure.
world() {
	local text=$out/seed-$1.txt
	if one "$@" >"$text" 2>&1; then
		grep '^seed ' "$text"
		rm "$text"
	else
		grep 'BROKEN\|^panic\|^fatal\|^seed ' "$text" | head -20 || true
		echo "seed $1 failed: $text"
		return 1
	fi
}

[ -n "${RELAY_SIM_BUILT:-}" ] || build
if [[ ${2:-} =~ ^[0-9]+$ ]]; then
	export -f world one
	export out
	lines=$(mktemp)
	trap 'rm "$lines"' EXIT
	seq "$1" "$2" | xargs -P "${RELAY_SIM_PROCESSES:-$(nproc)}" -I{} bash -c 'world "$@"' - {} "${@:3}" | tee "$lines" || failed=1
	awk '/^seed [0-9]+: / { n++; f += $5; a += $7; r += $9; m += $11; s += $14 }
		END { printf "sim: %d worlds, %d faults, %d accepted, %d requests, %.1f hours in %d s of a core\n", n, f, a, r, m / 60, s }' "$lines"
	[ -z "${failed:-}" ]
else
	one "$@"
fi
