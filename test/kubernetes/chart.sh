#!/usr/bin/env bash
# Runs the tests of the chart that need no nodes (make torture PART=chart) on a Kubernetes cluster without any: its
# autoscaler, Prometheus and its adapter, and the ingress controllers are real, the pods never start. Needs root, nsenter,
# openssl, HAProxy 2.6 and, for its controller, json for Lua 5.3 (haproxy and lua-json of Debian). Its data lie
# in one directory, RELAY_TEST_DIR or below /var/tmp.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${RELAY_TEST_DIR:-/var/tmp}/relay-chart-XXXXXX") # the controller of HAProxy stumbles over dots in it
clean() {
	[ ! -e "$work/cluster/pids" ] || test/kubernetes/cluster.sh down "$work/cluster" || true
	rm -rf "$work"
}
trap clean EXIT
export TMPDIR=$work
test/kubernetes/fetch.sh
test/prometheus/fetch.sh
mkdir "$work/cluster"
CGO_ENABLED=0 go test -c -o "$work/compose.test" ./test/compose
test/kubernetes/cluster.sh control "$work/cluster"
export RELAY_TEST_CONTROL_PLANE=$work/cluster
(cd test/compose && nsenter --net=/run/netns/relay-k8s-cp "$work/compose.test" -test.v -test.timeout 15m \
	-test.run '^(TestAutoscaling|TestIngress)$')
