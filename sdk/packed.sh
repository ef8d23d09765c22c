#!/usr/bin/env bash
# Installs the packed SDK and clients in empty projects, as their READMEs say, and runs them against bin/relay dev: the
# example of each client through the troubles of standin.mjs. packed.sh DIRECTORY has the files of pack.sh or of a release;
# `clients.sh install` comes before.
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
top=$PWD venv=$PWD/bin/clients/venv/bin
export CGO_ENABLED=0 GOFLAGS=-trimpath
. test/contract/dev.sh
start_relay
app=$relay_work/app
mkdir -p "$app"/{go,ts,js,python}

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

cd "$app/go"
cp "$top/sdk/go/examples/tour/main.go" .
go mod init example.com/tour 2>/dev/null
GOPROXY=file://$dist/goproxy GONOSUMDB=* GOMODCACHE=$app/modules GOFLAGS="$GOFLAGS -mod=mod -modcacherw" go build -o tour .
example ./tour

cd "$app/ts"
cp "$top/sdk/ts/examples/tour.ts" .
npm init -y >/dev/null
npm pkg set type=module
npm install --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error "$dist"/eventrelay-client-*.tgz
"$top/sdk/ts/node_modules/.bin/tsc" --strict --skipLibCheck --module nodenext --target es2022 --types node \
	--typeRoots "$top/sdk/ts/node_modules/@types" tour.ts
example node tour.js

cd "$app/python"
for file in "$dist"/eventrelay-*.{whl,tar.gz}; do
	"$venv/pip" install --quiet --disable-pip-version-check --no-index --no-build-isolation --target lib "$file"
	PYTHONPATH=lib example "$venv/python" "$top/sdk/python/examples/tour.py"
	rm -r lib
done

cd "$app/js"
npm init -y >/dev/null
npm install --offline --ignore-scripts --no-audit --no-fund --loglevel=error "$dist"/eventrelay-sdk-*.tgz
dsn=$(curl -sf -H "Authorization: Bearer $RELAY_API_KEY" --json '{"name":"shop","platform":"server"}' \
	"$RELAY_BASE_URL/v1/dsns" | node -p 'JSON.parse(require("fs").readFileSync(0)).dsn')
RELAY_DSN=$dsn node --import @eventrelay/sdk/register -e \
	'require("@eventrelay/sdk").sendTest().then((accepted) => process.exit(accepted ? 0 : 1))'
echo "clients: Go, npm, wheel, source archive and SDK installed from $(basename "$dist") and run"
