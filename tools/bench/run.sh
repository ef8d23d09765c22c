#!/usr/bin/env bash
# Runs every scenario for 20 seconds on this machine, a quarter of an hour in all. SECONDS_EACH is how long each sends.
set -euo pipefail
cd "$(dirname "$0")/../.."
each=${SECONDS_EACH:-20}s
echo "machine: $(nproc) cores, $(uname -sr), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs); load $(cut -d' ' -f1-3 /proc/loadavg); commit $(git rev-parse --short HEAD 2>/dev/null)"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
run() {
	bin/relay-bench "$@" 2>"$said" && return
	echo "FAILED: relay-bench $*"
	tail -n 20 "$said"
	failed=1
}
for fsync in true false; do
	run flat --posters 32 --duration "$each" --fsync=$fsync
	run flat --posters 128 --duration "$each" --fsync=$fsync
	run steady --duration "$each" --fsync=$fsync
	run floor --posters 32 --duration "$each" --fsync=$fsync
done
for rate in 10 100; do
	run steady --rate $rate --duration "$each" --stored 50000 --idle "$each"
	run floor --rate $rate --duration "$each"
done
for scenario in accept batch fanout hung tls mixed; do
	run $scenario --duration "$each"
done
run tls --http2 --duration "$each"
run retrystorm --events 5000
run drain --events 10000
run drain --events 10000 --stopped
run flat --posters 32 --duration "$each" --endpoints 1000
run flat --posters 32 --duration "$each" --configured 10000
run flat --posters 32 --duration "$each" --backlog 20000
run costs --turns 1 --each "$each"
exit $failed
