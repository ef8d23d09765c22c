#!/usr/bin/env bash
# Brings docker-compose.yml up from a clone of the last commit, in a Docker engine of its own with stand-ins for the public
# images, and runs the tests of test/compose (make torture PART=compose). test.sh DIST does it with the image of the release
# in the directory DIST instead of one that is built (make torture PART=release); RELAY_TEST_RUN chooses the tests. Needs root, dockerd and what images.sh needs. All of it
# lies in one directory, RELAY_TEST_DIR or below /var/tmp, and takes 8 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=${1:-}

. test/docker/docker.sh
work=$(mktemp -d "${RELAY_TEST_DIR:-/var/tmp}/relay-compose.XXXXXX")
clean() {
	stop_docker
	rm -rf "$work"
}
trap clean EXIT
export TMPDIR=$work
test/docker/fetch.sh
start_docker "$work"

git clone -q . "$work/clone"
test/docker/images.sh "$work/clone" ${dist:+"$dist"}
build_receiver "$work/receiver"
cd test/compose
RELAY_TEST_COMPOSE=$OLDPWD/bin/docker-compose RELAY_TEST_CLONE=$work/clone RELAY_TEST_IMAGE=${dist:+loaded} \
	"$work/receiver/receiver" -test.v -test.timeout 40m -test.run "${RELAY_TEST_RUN:-^TestCompose}"
