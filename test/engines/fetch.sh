#!/usr/bin/env bash
# Copies the jars of Apache Kafka into bin/engines/kafka, once per version of pom.xml. Every run verifies them against
# kafka.sha256. No other jar may be in that directory, because Kafka loads all of them. Then it keeps the classes that
# a broker loads in bin/engines/kafka.jsa, with which one starts for half of the CPU time.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/bin/engines/kafka
stamp=$target/pom.sum
sum=$(cksum <"$here/pom.xml")

# pinned reports whether the directory has exactly the jars of kafka.sha256.
pinned() {
	(cd "$target" && sha256sum --quiet --strict -c "$here/kafka.sha256" && [ "$(ls ./*.jar | wc -l)" = "$(wc -l <"$here/kafka.sha256")" ])
}

# archive writes bin/engines/kafka.jsa, once for each version of Java, of the jars, and for each path: it runs a broker
# until that takes connections. Without the archive brokers only start more slowly.
archive() {
	local of=$target.jsa.of made data port broker
	made="$target $sum $(java -version 2>&1 | cksum)"
	[ "$(cat "$of" 2>/dev/null)" != "$made" ] || return 0
	rm -f "$target.jsa" "$of"
	data=$(mktemp -d)
	port=$((20000 + $$ % 10000))
	JAVA_TOOL_OPTIONS="-XX:ArchiveClassesAtExit=$target.jsa.new -Xlog:cds*=off" "$here/kafka.sh" "$data" \
		"controller.quorum.voters=1@127.0.0.1:$((port + 2))" "listeners=$(printf '%s://127.0.0.1:%d,' CLIENTS $port \
			BROKERS $((port + 1)))CONTROLLER://127.0.0.1:$((port + 2))" >"$data/out" 2>&1 &
	broker=$!
	while kill -0 $broker 2>/dev/null && ! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && [ $SECONDS -lt 900 ]; do
		sleep 0.1
	done
	kill $broker 2>/dev/null || true
	wait $broker || true
	rm -rf "$data"
	if [ -f "$target.jsa.new" ]; then
		mv -f "$target.jsa.new" "$target.jsa"
		printf '%s\n' "$made" >"$of"
		echo "kafka: classes in $target.jsa"
	fi
}

if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then
	if pinned; then
		echo "kafka: jars already in $target"
		archive
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
archive
