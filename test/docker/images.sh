#!/usr/bin/env bash
# Builds stand-ins for the public images of docker-compose.yml and Dockerfile, under their names, in the Docker engine of
# DOCKER_HOST: use one that has no others. Needs root, debootstrap and the system's packages; the packed system is kept in
# bin/engines. images.sh CLONE builds the images of the relay from CLONE too; images.sh CLONE DIST loads that of a release
# from the directory DIST.
set -euo pipefail
clone=$1
dist=${2:+$(realpath "$2")}
cd "$(dirname "$0")/../.."
export DOCKER_BUILDKIT=0
recipe=$(cksum <test/docker/images.sh | cut -d ' ' -f 1)
packed=bin/engines/compose-$recipe.tar
work=$(mktemp -d "${TMPDIR:-/var/tmp}/relay-images.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

test/engines/fetch.sh
tools/sdk/build.sh
if [ ! -f "$packed" ]; then
	echo "compose: making a system with debootstrap (some minutes, once)"
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	debootstrap --variant=minbase --include=redis-server,default-jre-headless,haproxy,prometheus,ca-certificates,wget \
		"$codename" "$work/root" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
	rm -rf "$work"/root/var/cache/apt "$work"/root/var/lib/apt/lists "$work"/root/usr/share/{doc,locale,man}
	rm -f bin/engines/compose-*.tar
	tar -C "$work/root" -cf "$packed.part" .
	mv "$packed.part" "$packed"
	rm -rf "$work/root"
fi
docker import "$packed" debian:bookworm-slim >/dev/null

# The context of a build: hard links, because a link is not followed.
context=$work/context
mkdir -p "$context/modules"
cp test/docker/standins/* "$context"
cp -r "$(go env GOROOT)" "$context/go"
rm -rf "$context"/go/{test,doc,api}
proxies=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GOMODCACHE=$work/modules GOPROXY=$proxies GOFLAGS=-modcacherw go mod download
cp -r "$work"/modules/cache/download/. "$context/modules"
cp -rL bin/lib "$context/lib"
cp -r sdk/bin "$context/package"
mkdir "$context/kafka"
cp bin/engines/kafka/*.jar "$context/kafka"

# image NAME TARGET ARGUMENT... builds a stand-in.
image() {
	local name=$1 target=$2
	shift 2
	docker build -q --network none --target "$target" -t "$name" --build-arg BASE=debian:bookworm-slim "$@" "$context" >/dev/null
	echo "compose: built $target as $name"
}

# named PATTERN prints the image that docker-compose.yml names.
named() { sed -n "s|^ *image: \($1:.*\)|\1|p" docker-compose.yml | sort -u; }

image "$(named apache/kafka)" kafka
image "$(named redis)" redis
image "$(named haproxy)" haproxy
image "$(named prom/prometheus)" prometheus
relay=$(named eventrelay/relay)
if [ -n "$dist" ]; then
	docker load -q -i "$dist"/relay-*-linux-amd64.oci.tar >/dev/null
	docker image inspect "$relay" >/dev/null || { echo "compose: the image in $dist is not $relay" >&2; exit 1; }
	echo "compose: loaded $relay from $dist"
	mkdir -p "$work/dev/lib"
	cp bin/lib/libchdb.so "$work/dev/lib"
	cp "$dist"/relay-*-linux-amd64 "$work/dev/relay"
	printf 'FROM debian:bookworm-slim\nCOPY relay /usr/local/bin/relay\nCOPY lib /usr/local/bin/lib\n' >"$work/dev/Dockerfile"
	docker build -q --network none -t eventrelay/relay-dev "$work/dev" >/dev/null
else
	image golang:1.26-bookworm golang
	image node:22-bookworm node
	commit=$(git -C "$clone" describe --always --dirty --exclude '*')
	docker build -q --network none -f "$clone/deploy/image/Dockerfile" --build-arg COMMIT="$commit" --target relay -t "$relay" "$clone" >/dev/null
	echo "compose: built relay as $relay"
	docker build -q --network none -f "$clone/deploy/image/Dockerfile" --build-arg COMMIT="$commit" --target relay-dev -t eventrelay/relay-dev "$clone" >/dev/null
fi
echo "compose: built relay-dev as eventrelay/relay-dev"
image "$(named clickhouse/clickhouse-server)" clickhouse --build-arg RELAY_DEV=eventrelay/relay-dev
