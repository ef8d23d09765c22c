#!/usr/bin/env bash
# Compares pkg/secrets with gitleaks, on credentials in the contexts of logs. By hand: test/oracle/run.sh
set -euo pipefail
cd "$(dirname "$0")"
vectors=$(mktemp)
trap 'rm -f "$vectors"' EXIT
(cd ../.. && RELAY_VECTORS="$vectors" go test -vet=off -count=1 -run '^TestWriteVectors$' ./pkg/secrets >/dev/null)
go run . "$vectors"
