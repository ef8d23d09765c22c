#!/bin/sh
# Installs the vendors' own signature libraries, with which tests compare ours, those of receivers, and the libraries of the
# examples. They are no part of the binary.
set -eu
cd "$(dirname "$0")/.."

fresh() { [ -d "$1/node_modules" ] && [ "$1/node_modules" -nt "$1/package-lock.json" ]; }

for dir in pkg/verify/testdata/vendors pkg/verify/testdata/providers pkg/sign/testdata/node sdk/examples/javascript \
	dispatcher/destination/webhook/testdata/receivers; do
	fresh "$dir" && continue
	echo "vendors: npm ci in $dir"
	(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules)
done

(cd pkg/verify/testdata/providers/go && go mod download)
(cd dispatcher/destination/webhook/testdata/receivers/go && go mod download)

# python REQUIREMENTS DIRECTORY installs packages, unless the directory has those of this file.
python() {
	cmp -s "$1" "$2/requirements.txt" && return
	echo "vendors: pip install -r $1"
	rm -rf "$2"
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary=:all: --target "$2" -r "$1"
	cp "$1" "$2/"
}

if command -v python3 >/dev/null 2>&1; then
	python pkg/verify/testdata/vendors/requirements.txt pkg/verify/testdata/vendors/python
	python sdk/examples/python/requirements.txt bin/examples/python
	python dispatcher/destination/webhook/testdata/receivers/requirements.txt \
		dispatcher/destination/webhook/testdata/receivers/python
fi
