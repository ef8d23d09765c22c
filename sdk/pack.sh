#!/usr/bin/env bash
# Packs what applications install: pack.sh DIRECTORY VERSION writes there the SDK and the tools, which the relay serves
# under /tools as of that version, and of the clients goproxy, which GOPROXY takes, the package for npm, and for pip the
# wheel and the source archive. `clients.sh install` and tools/sdk/build.sh come before. The same files and
# SOURCE_DATE_EPOCH give the same bytes.
set -euo pipefail
umask 022
out=$(cd "$1" && pwd) version=$2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C sdk -cf - --mode=u=rwX,go=rX --exclude=node_modules --exclude=dist --exclude=__pycache__ go ts python |
	tar -C "$work" -xf -
for client in go ts python; do cp LICENSE "$work/$client"; done
ln -s "$PWD/sdk/ts/node_modules" "$work/ts/node_modules"
export CGO_ENABLED=0 GOFLAGS=-trimpath
go run ./sdk/pack "$out" "$version"
go run -C tools ./release/modzip github.com/eventrelay/relay/sdk/go "v$(cat VERSION)" "$work/go" "$out/goproxy"
(cd "$work/ts" && npm pack --silent --pack-destination "$out" >/dev/null)
python=$PWD/bin/clients/venv/bin/python
(cd "$work/python" && "$python" -c 'import sys; from flit_core.buildapi import build_sdist, build_wheel
build_sdist(sys.argv[1]), build_wheel(sys.argv[1])' "$out")
