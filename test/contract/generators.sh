#!/usr/bin/env bash
# Generates clients from /openapi-compat.json of bin/relay dev with openapi-generator, for Python, Go and TypeScript, and with
# openapi-python-client. Python has to import all modules, and openapi-python-client's to create, read and change an endpoint with
# destinations; Go has to compile, TypeScript to pass the strict type check.
# `generators.sh install` only fetches the generators.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=7.25.0
sum=41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae
work=$PWD/bin/contract/generators
jar=$work/openapi-generator-cli-$version.jar
pins=test/contract/requirements-generators.txt

for tool in java mvn python3 npm; do
	command -v $tool >/dev/null || { echo "the stock generators need Java, Maven, Python 3.11 and npm, and there is no $tool" >&2; exit 1; }
done
mkdir -p "$work"
verify() { echo "$sum  $jar" | sha256sum --quiet --strict -c; }
if ! [ -f "$jar" ] || ! verify; then
	echo "generators: fetching openapi-generator with Maven (32 MB, once)"
	rm -f "$work"/*.jar
	mvn -q -B -C org.apache.maven.plugins:maven-dependency-plugin:2.8:copy -DoutputDirectory="$work" \
		-Dartifact=org.openapitools:openapi-generator-cli:$version
	verify
fi
if ! cmp -s "$pins" "$work/venv/requirements.txt"; then
	rm -rf "$work/venv"
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: -r "$pins"
	cp "$pins" "$work/venv/requirements.txt"
fi
test/contract/client.sh install # the compiler of TypeScript
[ "${1:-}" = install ] && exit

tsc=$PWD/bin/contract/client/node_modules/.bin/tsc
. test/contract/dev.sh
start_relay
out=$work/out
rm -rf "$out"
mkdir -p "$out"
cd "$out"
curl -sf -o openapi.json "$RELAY_BASE_URL/openapi-compat.json"

# quiet COMMAND... prints the output of a command only if it fails.
quiet() { "$@" >log 2>&1 || { cat log >&2 && return 1; }; }
for language in python go typescript-fetch; do
	quiet java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -jar "$jar" generate -g $language -i openapi.json -o $language \
		--global-property apiDocs=false,modelDocs=false,apiTests=false,modelTests=false
done
quiet "$work/venv/bin/openapi-python-client" generate --path openapi.json --output-path python_client --meta none

"$work/venv/bin/python" - <<'PYTHON'
import importlib
import pkgutil
import sys

sys.path[:0] = [".", "python"]
for name in ("python_client", "openapi_client"):
    package = importlib.import_module(name)
    modules = [importlib.import_module(module.name) for module in pkgutil.walk_packages(package.__path__, name + ".")]
    print(f"{name}: {len(modules)} modules imported")
    if len(modules) < 100:
        sys.exit(f"{name} has too few modules")
PYTHON
# The client of openapi-python-client imports most models only when it uses them.
"$work/venv/bin/python" - <<'PYTHON'
import os
import sys

sys.path[:0] = ["."]
from python_client import AuthenticatedClient
from python_client.api.alerts import update_alerts
from python_client.api.endpoints import create_endpoint, read_endpoint, update_endpoint
from python_client.models import AlertSettingsInput, EndpointCreate, EndpointUpdate

client = AuthenticatedClient(
    base_url=os.environ["RELAY_BASE_URL"], token=os.environ["RELAY_API_KEY"], raise_on_unexpected_status=True)
made = create_endpoint.sync(client=client, body=EndpointCreate.from_dict({
    "name": "shop", "destinations": [
        {"url": "https://127.0.0.1:9/a", "filter": {"types": ["order.*"]}, "headers": {"X-Shop": "1"}},
        {"url": "https://127.0.0.1:9/b", "rate_limit": {"per_second": 5}, "filter": None}]}))
read = read_endpoint.sync(made.id, client=client)
assert [(d.url, d.filter_ and d.filter_.types) for d in read.destinations] == [
    ("https://127.0.0.1:9/a", ["order.*"]), ("https://127.0.0.1:9/b", None)], read
changed = update_endpoint.sync(made.id, client=client, body=EndpointUpdate.from_dict({
    "name": "store", "destinations": [{"id": read.destinations[0].id, "url": "https://127.0.0.1:9/c", "filter": None}]}))
assert changed.name == "store" and changed.destinations[0].filter_ is None, changed
settings = update_alerts.sync(client=client, body=AlertSettingsInput.from_dict({
    "channels": {"webhook": {"url": "https://127.0.0.1:9/alerts"}, "email": None}}))
assert settings.channels.webhook and settings.channels.email is None, settings
print("python_client: an endpoint with destinations and alert settings created, read and changed")
PYTHON
(cd go && GOFLAGS="-trimpath -mod=mod" CGO_ENABLED=0 quiet go build ./...)
"$tsc" --strict --noEmit --target es2022 --module esnext --moduleResolution bundler --lib es2022,dom typescript-fetch/index.ts
echo "stock generators: clients in Python (2), Go and TypeScript"
