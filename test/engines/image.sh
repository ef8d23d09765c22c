#!/bin/sh
# Builds the Docker image of the engines for tests, where none can be pulled: a system made by debootstrap
# with redis-server and a Java runtime of the system's packages, and the jars of Apache Kafka. Once per
# recipe (this file and pom.xml) and Docker engine; the packed system is kept in bin/engines. Needs root.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
engines=$(cd "$here/../.." && pwd)/bin/engines
recipe=$(cat "$here/image.sh" "$here/pom.xml" | cksum | cut -d' ' -f1)
name=relay-test-engines:$recipe
packed=$engines/image-$recipe.tar

if docker image inspect "$name" >/dev/null 2>&1; then
	echo "engines: image $name is there"
	printf '%s\n' "$name" >"$engines/image"
	exit 0
fi
if [ ! -f "$packed" ]; then
	for tool in debootstrap tar; do
		command -v "$tool" >/dev/null 2>&1 || { echo "engines: $tool is missing" >&2; exit 1; }
	done
	"$here/fetch.sh"
	echo "engines: building the image $name (a minute or two, once)"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	debootstrap --variant=minbase --include=redis-server,default-jre-headless "$codename" "$work/root" >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2; exit 1; }
	mkdir -p "$work/root/opt/kafka/libs"
	cp "$engines"/kafka/*.jar "$work/root/opt/kafka/libs/"
	rm -rf "$work/root/var/cache/apt" "$work/root/var/lib/apt/lists" "$work/root/usr/share/doc" "$work/root/usr/share/locale"
	rm -f "$engines"/image-*.tar
	tar -C "$work/root" -cf "$packed.part" .
	mv "$packed.part" "$packed"
fi
docker import "$packed" "$name" >/dev/null
printf '%s\n' "$name" >"$engines/image"
echo "engines: image $name is there"
