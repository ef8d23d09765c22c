#!/bin/sh
# Installs the vendors' own signature libraries, with which tests compare ours. They are test dependencies only:
# the binary contains nothing of them.
set -eu
cd "$(dirname "$0")/.."

fresh() { [ -d "$1/node_modules" ] && [ "$1/node_modules" -nt "$1/package-lock.json" ]; }

for dir in pkg/verify/testdata/vendors pkg/sign/testdata/node; do
	fresh "$dir" && continue
	echo "vendors: npm ci in $dir"
	(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules)
done
vendors=pkg/verify/testdata/vendors
if ! cmp -s "$vendors/requirements.txt" "$vendors/python/requirements.txt" && command -v python3 >/dev/null 2>&1; then
	echo "vendors: pip install in $vendors"
	rm -rf "$vendors/python"
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary=:all: --target "$vendors/python" -r "$vendors/requirements.txt"
	cp "$vendors/requirements.txt" "$vendors/python/"
fi
