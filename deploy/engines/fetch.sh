#!/bin/sh
# Copies the jars of Apache Kafka into bin/engines/kafka, once per version of pom.xml.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/bin/engines/kafka
stamp=$target/pom.sum
sum=$(cksum <"$here/pom.xml")

if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then
	echo "kafka: jars already in $target"
	exit 0
fi
for tool in mvn java; do
	command -v "$tool" >/dev/null 2>&1 || { echo "kafka: $tool is missing; install Maven and Java 17" >&2; exit 1; }
done
echo "kafka: fetching the jars of Apache Kafka with Maven (about 45 MB, once)"
rm -rf "$target"
mkdir -p "$target"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$target" -DincludeScope=runtime
printf '%s\n' "$sum" >"$stamp"
echo "kafka: jars in $target"
