#!/usr/bin/env bash
# Tests the product's JavaScript: tests without a browser on the system's Node.js, on the oldest and on the newest (those
# between: make torture PART=sdk), then the pages of bin/relay in Chromium. `sdk/test.sh install` installs the
# dependencies, `sdk/test.sh browser` prints the browser's path.
set -euo pipefail
cd "$(dirname "$0")"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || browser=
if [ "${1:-}" = browser ]; then
	[ -n "$browser" ] && echo "$browser"
	exit
fi

node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' ||
	{ echo "the JavaScript tests need Node 20 or newer; this is $(node --version)" >&2; exit 1; }
# npm verifies each package against its hash in package-lock.json; package scripts do not run.
if ! cmp -s package-lock.json node_modules/installed; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/installed
fi
[ "${1:-}" = install ] && exit

mapfile -t files < <(find . -name node_modules -prune -o -path ./browser -prune -o -path ./ts -prune -o -name '*.test.mjs' -print | sort)
nodes=(node)
for node in node_modules/node{18,26}/bin/node; do
	[ -x "$node" ] && nodes+=("$node")
done
for node in "${nodes[@]}"; do
	echo "on Node $("$node" --version):"
	"$node" --test --test-reporter=spec "${files[@]}"
done
# Each file has its own relay and browser, which wait for each other half of the time: two at a time also on two cores,
# for which Node.js runs one. The option is newer than Node 20.0.
echo "in Chromium:"
concurrency=
[[ $(node --help) != *--test-concurrency* ]] || concurrency=--test-concurrency=2
RELAY_TEST_BROWSER=$browser node --test --test-reporter=spec $concurrency browser/*.test.mjs
