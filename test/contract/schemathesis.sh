#!/usr/bin/env bash
# Runs schemathesis against bin/relay dev: valid and invalid requests generated from the OpenAPI document, and sequences
# along its links. No answer may be a 5xx or have a status, header, type or member that the document does not name, and
# no request without a key may succeed. RELAY_SEED is a number or random, RELAY_SECONDS is its duration; a machine that is too
# slow to generate requests within it gets twice the time, up to eight times.
set -euo pipefail
cd "$(dirname "$0")/../.."

seed=${RELAY_SEED:-1}
[ "$seed" != random ] || seed=$((RANDOM + 1))
seconds=${RELAY_SECONDS:-20}
venv=bin/contract/schemathesis
pins=test/contract/requirements.txt

command -v python3 >/dev/null || { echo "schemathesis needs Python 3.11 or newer, and there is no python3" >&2; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "schemathesis needs Python 3.11 or newer; this is $(python3 --version)" >&2; exit 1; }
if ! cmp -s "$pins" "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: -r "$pins"
	cp "$pins" "$venv/requirements.txt"
fi
[ "${1:-}" = install ] && exit

. test/contract/dev.sh
start_relay
# Checks that are switched off: the API answers a wrong method with 404 (unsupported_method), validates more than a
# schema can express (positive_data_acceptance; accepted.py bounds how much), and accepts some input that it never writes,
# such as an empty filter (negative_data_rejection). The stored answer to a repeated Idempotency-Key may name an entity
# that was deleted since (ensure_resource_availability).
run() {
	"$venv/bin/schemathesis" --config-file test/contract/schemathesis.toml run "$RELAY_BASE_URL/openapi.json" \
		--header "Authorization: Bearer $RELAY_API_KEY" --seed "$seed" --max-time "$seconds" \
		--exclude-checks unsupported_method,positive_data_acceptance,negative_data_rejection,ensure_resource_availability \
		--request-timeout 120 --warnings off --no-color --report ndjson --report-ndjson-path "$relay_work/calls" \
		>"$relay_work/report" 2>&1 && python3 test/contract/accepted.py "$relay_work/calls" >>"$relay_work/report" 2>&1 &&
		rm -rf .schemathesis
}
for seconds in "$seconds" $((2 * seconds)) $((4 * seconds)) $((8 * seconds)); do
	result=0
	run || result=$?
	[ $result = 3 ] || break # TOO_SHORT of accepted.py
done
if [ $result = 0 ]; then
	sed -n -e '/^Test cases:/,/^$/p' -e '/ of what the document allows$/p' "$relay_work/report"
	echo "schemathesis: seed $seed, $seconds s, nothing found"
else
	cat "$relay_work/report" >&2
	echo "schemathesis found something; RELAY_SEED=$seed RELAY_SECONDS=$seconds repeats it" >&2
	exit 1
fi
