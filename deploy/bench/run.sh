#!/usr/bin/env bash
# The measurements of README and deploy/bench/results.md, on this machine, in a few minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
go build -o bin/bench ./deploy/bench
echo "machine: $(nproc) cores, $(uname -sr), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs); commit $(git rev-parse --short HEAD 2>/dev/null)"
for fsync in true false; do
	bin/bench --posters 32 --fsync=$fsync
	bin/bench --posters 128 --fsync=$fsync
	bin/bench --rate 500 --fsync=$fsync
	bin/bench --posters 2 --batch 1000 --fsync=$fsync
done
