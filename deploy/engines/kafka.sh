#!/bin/sh
# Runs one Apache Kafka broker in the foreground: kafka.sh DIRECTORY PORT CONTROLLER_PORT
# The directory is formatted at the first start and kept. The process is the broker itself: end it by its id.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
jars=$(cd "$here/../.." && pwd)/bin/engines/kafka
data=$1 port=$2 controller=$3
[ -f "$jars/pom.sum" ] || { echo "kafka: run deploy/engines/fetch.sh first" >&2; exit 1; }

mkdir -p "$data"
cat >"$data/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$data/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
# A broker that was killed is let in again when its old session is over: 9 s by default.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
PROPERTIES
cat >"$data/log4j2.properties" <<'PROPERTIES'
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
PROPERTIES

options="-Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=$data/log4j2.properties"
if [ ! -f "$data/log/meta.properties" ]; then
	# A cluster id is 16 bytes in URL-safe base64; this one is the same everywhere, which matters to nobody on loopback.
	java $options -cp "$jars/*" kafka.tools.StorageTool format -t cmVsYXktdGVzdC1rYWZrYQ -c "$data/server.properties" >/dev/null
fi
exec java $options -cp "$jars/*" kafka.Kafka "$data/server.properties"
