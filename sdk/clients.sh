#!/usr/bin/env bash
# Tests the clients in go, ts and python: what is generated must be what bin/relay's OpenAPI document says, the tests of ts
# and python must pass (test/run.sh runs those of go, as of other modules), and the packed files must work (packed.sh).
# `clients.sh generate` writes the generated files, `clients.sh install` only fetches the generators.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD work=$PWD/bin/clients
venv=$work/venv/bin
export CGO_ENABLED=0 GOFLAGS=-trimpath

for tool in npm python3; do
	command -v $tool >/dev/null || { echo "the clients need npm and Python 3.11, and there is no $tool" >&2; exit 1; }
done
mkdir -p "$work"
if ! cmp -s sdk/python/requirements.txt "$work/venv/requirements.txt"; then
	rm -rf "$work/venv"
	python3 -m venv "$work/venv"
	"$venv/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
		-r sdk/python/requirements.txt
	cp sdk/python/requirements.txt "$work/venv/"
fi
if ! cmp -s sdk/ts/package-lock.json sdk/ts/node_modules/installed; then
	(cd sdk/ts && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp sdk/ts/package-lock.json sdk/ts/node_modules/installed
fi
[ "${1:-}" = install ] && exit

. test/contract/dev.sh
start_relay

# A copy, so that a test changes no file of the repository.
rm -rf "$work/sdk"
mkdir -p "$work/sdk"
tar -C sdk -cf - --exclude=node_modules --exclude=dist --exclude=__pycache__ go ts python vectors.json retries.json |
	tar -C "$work/sdk" -xf -
ln -s "$top/sdk/ts/node_modules" "$work/sdk/ts/node_modules"
cd "$work/sdk"
for name in openapi openapi-compat; do
	curl -sf -o "$work/$name.json" "$RELAY_BASE_URL/$name.json"
done
version=$(cat "$top/VERSION")
sed -i "s/^version = .*/version = \"$version\"/" python/pyproject.toml
(cd ts && npm pkg set version="$version")
find . -name '*.gen.*' -delete -o -name '*_gen.py' -delete
pins=$top/test/contract/goclient/go.mod # of oapi-codegen
(cd go && go tool -modfile="$pins" oapi-codegen -config oapi-codegen.yaml "$work/openapi-compat.json")
(cd ts && node generate.mjs "$work/openapi.json")
(
	cd python
	"$venv/python" generate.py "$work/openapi-compat.json"
	"$venv/datamodel-codegen" --input "$work/openapi-compat.json" --input-file-type openapi --openapi-scopes schemas \
		--output src/eventrelay/types_gen.py --output-model-type typing.TypedDict --target-python-version 3.11 \
		--no-use-closed-typed-dict --strict-nullable --enum-field-as-literal all --use-schema-description \
		--use-field-description --no-formatters --custom-file-header \
		'# Code generated from the OpenAPI document by datamodel-code-generator. DO NOT EDIT.' 2>/dev/null
	"$venv/ruff" format --quiet src/eventrelay/*_gen.py
)
generated="$(find . -name '*.gen.*' -o -name '*_gen.py' | sort) python/pyproject.toml ts/package.json"
if [ "${1:-}" = generate ]; then
	for file in $generated; do cp "$file" "$top/sdk/$file"; done
	exit
fi
for file in $generated; do
	diff -u "$top/sdk/$file" "$file" && continue
	echo "sdk/$file is not what the OpenAPI document says: run make generate" >&2
	exit 1
done
"$venv/ruff" format --check --quiet python || { echo "ruff would change sdk/python" >&2; exit 1; }

(cd ts && npm run --silent prepack && node --test client.test.mjs)
(cd python && PYTHONPATH=src "$venv/python" -m unittest -q test_client.py)

rm -rf "$work/dist"
mkdir "$work/dist"
"$top/sdk/pack.sh" "$work/dist" "$version"
"$top/sdk/packed.sh" "$work/dist"
