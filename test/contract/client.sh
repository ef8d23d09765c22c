#!/usr/bin/env bash
# Generates clients from the OpenAPI document, in TypeScript and Go, compiles them (TypeScript with all strict options), and
# runs the main path of the API with each against bin/relay dev. Two linters read an exported catalogue of event types.
# `client.sh install` only fetches the generator for TypeScript and the linters.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=bin/contract/client
mkdir -p "$work"
if ! cmp -s test/contract/package-lock.json "$work/package-lock.json" || [ ! -d "$work/node_modules" ]; then
	rm -rf "$work"
	mkdir -p "$work"
	cp test/contract/package.json test/contract/.npmrc "$work/"
	cp test/contract/package-lock.json "$work/lock"
	(cd "$work" && cp lock package-lock.json && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
[ "${1:-}" = install ] && exit
cp test/contract/tsconfig.json test/contract/main.ts "$work/"

. test/contract/dev.sh
start_relay
curl -sf -o "$work/openapi.yaml" "$RELAY_BASE_URL/openapi.yaml" # what is served, not the file
cd "$work"
npx --no-install openapi-typescript openapi.yaml -o schema.d.ts >/dev/null
npx --no-install tsc -p .
node main.js

# An exported catalogue is valid for others, too.
call() { curl -sS --fail-with-body -H "Authorization: Bearer $RELAY_API_KEY" -H 'Content-Type: application/json' "$@"; }
call -o imported.json -d @../../../test/contract/webhooks.json "$RELAY_BASE_URL/v1/event_types/import"
call -o settings.json -X PATCH -d '{"public":true,"title":"Webhooks of a shop"}' "$RELAY_BASE_URL/v1/settings/catalogue"
call -o catalogue.json "$RELAY_BASE_URL/v1/event_types/openapi.json"
call -o public.json "$RELAY_BASE_URL/catalogue/openapi.json"
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
npx --no-install redocly lint --extends=recommended --skip-rule=info-license catalogue.json public.json
echo 'extends: spectral:oas' >spectral.yaml
npx --no-install spectral lint --ruleset spectral.yaml --fail-severity error catalogue.json public.json

# The client for Go. The module's go.mod pins the generator.
go=../goclient
mkdir -p $go/relay
cp ../../../test/contract/goclient/{go.mod,go.sum,main.go,oapi-codegen.yaml,overlay.yaml} $go/
sed 's/^\( *id:\) false$/\1 {not: {}}/' openapi.yaml >$go/openapi.yaml # the generator cannot read the schema false
cd $go
export GOFLAGS=-trimpath CGO_ENABLED=0 # as the rest of make test, which has compiled the standard library so
go tool oapi-codegen -config oapi-codegen.yaml openapi.yaml
go run .
