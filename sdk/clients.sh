#!/usr/bin/env bash
# Tests the clients in go, ts and python: what is generated must be what bin/relay's OpenAPI document says, the tests of ts
# and python must pass (test/run.sh runs those of go, as of other modules), and the example of each must run in an empty
# project against bin/relay dev, through the troubles of standin.mjs. `clients.sh generate` writes the generated files,
# `clients.sh install` only fetches the generators.
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

(cd ts && npm pack --silent >/dev/null && node --test client.test.mjs)
(cd python && PYTHONPATH=src "$venv/python" -m unittest -q test_client.py)

# example COMMAND... runs an example before a relay that fails now and then.
example() {
	coproc STANDIN { exec node "$top/sdk/standin.mjs" "$RELAY_BASE_URL"; }
	local standin=$STANDIN_PID base out # bash unsets STANDIN_PID at its end
	read -r base <&"${STANDIN[0]}"
	out=$(RELAY_BASE_URL=$base timeout 120 "$@")
	diff - <(printf '%s\n' "$out") <<-'OUT'
		scope read_write
		stored 2100
		listed 2101
		refused 404 not_found
		streamed 2101
	OUT
	diff - <(curl -sf "$base/overcome") <<<$'429 to a read\n503 to a batch\na stream is cut\nan answer is lost'
	kill "$standin"
	wait "$standin" || true
}

# The commands of the READMEs, each in an empty project. What is not published yet is taken from here.
mkdir -p app/go app/ts app/python
cd "$work/sdk/app/go"
cp "$work/sdk/go/examples/tour/main.go" .
go mod init example.com/tour 2>/dev/null
go mod edit -replace github.com/eventrelay/relay/sdk/go=../../go
GOPROXY=off go get github.com/eventrelay/relay/sdk/go 2>/dev/null
go build -o tour .
example ./tour

cd "$work/sdk/app/ts"
cp "$work/sdk/ts/examples/tour.ts" .
npm init -y >/dev/null
npm pkg set type=module
npm install --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error ../../ts/eventrelay-client-*.tgz
"$top/sdk/ts/node_modules/.bin/tsc" --strict --skipLibCheck --module nodenext --target es2022 --types node \
	--typeRoots "$top/sdk/ts/node_modules/@types" tour.ts
example node tour.js

cd "$work/sdk/app/python"
(cd "$work/sdk/python" && "$venv/python" -m flit_core.wheel --outdir ../app/python >/dev/null)
"$venv/pip" install --quiet --disable-pip-version-check --no-index --target lib ./eventrelay-*.whl
PYTHONPATH=lib example "$venv/python" "$work/sdk/python/examples/tour.py"
echo "clients in Go, TypeScript and Python: generated files, tests, examples"
