#!/usr/bin/env bash
# Generates a TypeScript client from the OpenAPI document, compiles it with all strict options, and runs the
# main path of the API with it against bin/relay dev.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=bin/contract/client
mkdir -p "$work"
if ! cmp -s deploy/contract/package-lock.json "$work/package-lock.json" || [ ! -d "$work/node_modules" ]; then
	rm -rf "$work"
	mkdir -p "$work"
	cp deploy/contract/package.json deploy/contract/.npmrc "$work/"
	cp deploy/contract/package-lock.json "$work/lock"
	(cd "$work" && cp lock package-lock.json && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
cp deploy/contract/tsconfig.json deploy/contract/main.ts "$work/"

. deploy/contract/dev.sh
start_relay
curl -sf -o "$work/openapi.yaml" "$RELAY_BASE_URL/openapi.yaml" # what is served, not the file
cd "$work"
npx --no-install openapi-typescript openapi.yaml -o schema.d.ts >/dev/null
npx --no-install tsc -p .
node main.js
