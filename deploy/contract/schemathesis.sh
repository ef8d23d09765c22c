#!/usr/bin/env bash
# Plays requests that schemathesis makes of the OpenAPI document, good and bad ones and chains along its links, against
# bin/relay dev: no 5xx, no status, header, type or member that the document does not know, no request without a key
# that is answered. RELAY_SEED repeats a run, RELAY_SECONDS is how long it plays.
set -euo pipefail
cd "$(dirname "$0")/../.."

seed=${RELAY_SEED:-$((RANDOM + 1))}
seconds=${RELAY_SECONDS:-45}
venv=bin/contract/schemathesis
pins=deploy/contract/requirements.txt

command -v python3 >/dev/null || { echo "schemathesis needs Python 3.11 or newer, and there is no python3" >&2; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "schemathesis needs Python 3.11 or newer; this is $(python3 --version)" >&2; exit 1; }
if ! cmp -s "$pins" "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: -r "$pins"
	cp "$pins" "$venv/requirements.txt"
fi
[ "${1:-}" = install ] && exit

. deploy/contract/dev.sh
start_relay
# Left out, each for a reason: the API answers a wrong method with 404 (unsupported_method), judges more than a schema
# can say (positive_data_acceptance; accepted.py bounds how much), and reads some things more kindly than it writes
# them, such as an empty filter (negative_data_rejection). The remembered answer to a repeat under an Idempotency-Key may
# name what was deleted since (ensure_resource_availability).
run() {
	"$venv/bin/schemathesis" --config-file deploy/contract/schemathesis.toml run "$RELAY_BASE_URL/openapi.json" \
		--header "Authorization: Bearer $RELAY_API_KEY" --seed "$seed" --max-time "$seconds" \
		--exclude-checks unsupported_method,positive_data_acceptance,negative_data_rejection,ensure_resource_availability \
		--request-timeout 20 --warnings off --no-color --report ndjson --report-ndjson-path "$relay_work/calls" \
		>"$relay_work/report" 2>&1 && python3 deploy/contract/accepted.py "$relay_work/calls" >>"$relay_work/report" 2>&1 &&
		rm -rf .schemathesis
}
if run; then
	sed -n -e '/^Test cases:/,/^$/p' -e '/ of what the document allows$/p' "$relay_work/report"
	echo "schemathesis: seed $seed, $seconds s, nothing found"
else
	cat "$relay_work/report" >&2
	echo "schemathesis found something; RELAY_SEED=$seed RELAY_SECONDS=$seconds repeats it" >&2
	exit 1
fi
