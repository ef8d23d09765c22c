#!/usr/bin/env bash
# Tests the SDK on Node.js 20, 22, 24 and 26 (make torture PART=sdk), and what masking costs on each.
set -euo pipefail
cd "$(dirname "$0")"

for node in node ../node_modules/node22/bin/node ../node_modules/node24/bin/node ../node_modules/node26/bin/node; do
	version=$("$node" --version)
	echo "on Node $version:"
	RELAY_TORTURE=1 "$node" --test --test-reporter=spec ./*.test.mjs | tee "${TMPDIR:-/tmp}/sdk-torture.log"
	echo "sdk: $version, $(sed -n 's/^ℹ \(pass [0-9]*\)$/\1/p' "${TMPDIR:-/tmp}/sdk-torture.log")"
	"$node" bench.mjs | sed 's/^/sdk: /'
done
rm "${TMPDIR:-/tmp}/sdk-torture.log"
