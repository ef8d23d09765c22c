#!/bin/sh
# Builds Docker Compose v2 from its Go module as bin/docker-compose, once per version.
set -eu
cd "$(dirname "$0")/../.."
stamp=bin/docker-compose.sum
sum=$(cat test/docker/go.mod test/docker/go.sum | cksum)
if [ -x bin/docker-compose ] && [ "$(cat $stamp 2>/dev/null)" = "$sum" ]; then
	exit 0
fi
echo "compose: building Docker Compose (some minutes, once)"
mkdir -p bin
CGO_ENABLED=0 go build -C test/docker -trimpath -o ../../bin/docker-compose github.com/docker/compose/v2/cmd
printf '%s\n' "$sum" >$stamp
