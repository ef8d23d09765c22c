#!/usr/bin/env bash
# The measurements of README.md, on this machine, in a few minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
echo "machine: $(nproc) cores, $(uname -sr), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs); commit $(git rev-parse --short HEAD 2>/dev/null)"
for fsync in true false; do
	bin/relay bench flat --posters 32 --fsync=$fsync
	bin/relay bench flat --posters 128 --fsync=$fsync
	bin/relay bench flat --rate 500 --fsync=$fsync
	bin/relay bench flat --posters 2 --batch 1000 --fsync=$fsync
done
