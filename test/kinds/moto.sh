#!/usr/bin/env bash
# Tests the kinds of destinations that are services of AWS against moto, which verifies signatures and rights.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=bin/moto
pins=test/kinds/requirements.txt
if ! cmp -s "$pins" "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: -r "$pins"
	cp "$pins" "$venv/requirements.txt"
fi

port=$((20000 + $$ % 10000))
"$venv/bin/moto_server" -H 127.0.0.1 -p $port >"$venv/log" 2>&1 &
server=$!
trap 'kill $server' EXIT
until (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do
	kill -0 $server
	sleep 0.1
done
# One package at a time: they share the server.
CGO_ENABLED=0 RELAY_TEST_MOTO=http://127.0.0.1:$port go test -p 1 -count 1 -run '^TestMoto$' ./dispatcher/destination/s3 \
	./dispatcher/destination/sqs
