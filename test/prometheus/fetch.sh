#!/bin/sh
# Copies prometheus and promtool from the system's package to bin/prometheus without installing it: the package would
# start a server. apt-get verifies what it downloads by the signatures of the distribution.
set -eu

target=$(cd "$(dirname "$0")/../.." && pwd)/bin/prometheus
if [ -x "$target/promtool" ] && [ -x "$target/prometheus" ]; then
	echo "prometheus: already in $target"
	exit 0
fi
for tool in apt-get dpkg-deb; do
	command -v "$tool" >/dev/null 2>&1 || { echo "prometheus: $tool is missing; put promtool and prometheus into $target" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
echo "prometheus: fetching the system's package (about 20 MB, once)"
download() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root prometheus); }
download || { apt-get update -qq && download; }
dpkg-deb -x "$work"/prometheus_*.deb "$work/files"
mkdir -p "$target"
mv -f "$work/files/usr/bin/promtool" "$work/files/usr/bin/prometheus" "$target/"
echo "prometheus: in $target"
