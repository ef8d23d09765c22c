#!/bin/sh
# Copies the jars of Apache Kafka into bin/engines/kafka, once per version of pom.xml. Every run verifies them against
# kafka.sha256. No other jar may be in that directory, because Kafka loads all of them.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/bin/engines/kafka
stamp=$target/pom.sum
sum=$(cksum <"$here/pom.xml")

# pinned reports whether the directory has exactly the jars of kafka.sha256.
pinned() {
	(cd "$target" && sha256sum --quiet --strict -c "$here/kafka.sha256" && [ "$(ls ./*.jar | wc -l)" = "$(wc -l <"$here/kafka.sha256")" ])
}

if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then
	if pinned; then
		echo "kafka: jars already in $target"
		exit 0
	fi
	echo "kafka: the jars in $target are not what was fetched: they are fetched again"
fi
for tool in mvn java; do
	command -v "$tool" >/dev/null 2>&1 || { echo "kafka: $tool is missing; install Maven and Java 17" >&2; exit 1; }
done
echo "kafka: fetching the jars of Apache Kafka with Maven (about 45 MB, once)"
rm -rf "$target"
mkdir -p "$target"
mvn -q -B -C -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies \
	-DoutputDirectory="$target" -DincludeScope=runtime
pinned || { echo "kafka: what Maven fetched are not the jars of kafka.sha256; another version in pom.xml needs new sums there" >&2; exit 1; }
printf '%s\n' "$sum" >"$stamp"
echo "kafka: jars in $target"
