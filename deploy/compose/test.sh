#!/usr/bin/env bash
# Brings docker-compose.yml up from a clone of the last commit, in a Docker engine of its own with stand-ins for the public
# images, and runs the tests of test/compose (make torture PART=compose). test.sh DIST does it with the image of the release
# in the directory DIST instead of one that is built (make torture PART=release); RELAY_TEST_RUN chooses the tests. Needs root, dockerd and what images.sh needs. All of it
# lies in one directory, RELAY_TEST_DIR or below /var/tmp, and takes 8 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=${1:-}

work=$(mktemp -d "${RELAY_TEST_DIR:-/var/tmp}/relay-compose.XXXXXX")
dockerd=
clean() {
	if [ -n "$dockerd" ]; then
		kill "$dockerd" 2>/dev/null && wait "$dockerd" || true
	fi
	rm -rf "$work"
}
trap clean EXIT
export TMPDIR=$work
deploy/compose/fetch.sh
dockerd --bridge none --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
	--host "unix://$work/docker.sock" >"$work/log" 2>&1 &
dockerd=$!
export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=0
for _ in $(seq 120); do
	docker info >/dev/null 2>&1 && break
	kill -0 "$dockerd" 2>/dev/null || { tail "$work/log" >&2; exit 1; }
	sleep 0.5
done

git clone -q . "$work/clone"
deploy/compose/images.sh "$work/clone" ${dist:+"$dist"}
mkdir "$work/receiver"
CGO_ENABLED=0 go test -c -vet=off -o "$work/receiver/receiver" ./test/compose
printf 'FROM debian:bookworm-slim\nCOPY receiver /receiver\nUSER 65532:65532\nENTRYPOINT ["/receiver", "receiver"]\n' >"$work/receiver/Dockerfile"
docker build -q --network none -t eventrelay/receiver:1.0 "$work/receiver" >/dev/null
cd test/compose
RELAY_TEST_COMPOSE=$OLDPWD/bin/docker-compose RELAY_TEST_CLONE=$work/clone RELAY_TEST_IMAGE=${dist:+loaded} \
	"$work/receiver/receiver" -test.v -test.timeout 40m -test.run "${RELAY_TEST_RUN:-^TestCompose}"
