#!/bin/sh
# Runs one Apache Kafka broker in the foreground: kafka.sh DIRECTORY [property=value]…
# The default is a single broker on 127.0.0.1:9092; of properties with the same name the last one counts. The first
# start formats the directory. The script becomes the broker process: stop it by its process id.
set -eu

data=$1
shift
# Path of the jars in container images.
jars=/opt/kafka/libs
if [ ! -d "$jars" ]; then
	jars=$(cd "$(dirname "$0")/../.." && pwd)/bin/engines/kafka
	[ -f "$jars/pom.sum" ] || { echo "kafka: run test/engines/fetch.sh first" >&2; exit 1; }
fi

mkdir -p "$data"
cat >"$data/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKERS
log.dirs=$data/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
# A killed broker can register again once its old session has expired: 9 s by default.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
PROPERTIES
for property; do
	printf '%s\n' "$property" >>"$data/server.properties"
done
# The authorizer logs what it denies at INFO, and what it allows at DEBUG.
cat >"$data/log4j2.properties" <<PROPERTIES
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
logger.authorizer.name = kafka.authorizer.logger
logger.authorizer.level = ${RELAY_KAFKA_AUTHORIZER_LOG:-WARN}
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
PROPERTIES

options="-Xms128m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=$data/log4j2.properties"
# Loaded classes, which fetch.sh keeps. An archive of another Java or other jars is ignored without a word.
[ ! -f "$jars.jsa" ] || options="$options -XX:SharedArchiveFile=$jars.jsa -Xlog:cds*=off"
if [ ! -f "$data/log/meta.properties" ]; then
	# A cluster id is 16 bytes in URL-safe base64; the same one everywhere is fine on loopback.
	java $options -cp "$jars/*" kafka.tools.StorageTool format -t cmVsYXktdGVzdC1rYWZrYQ -c "$data/server.properties" >/dev/null
fi
exec java $options -cp "$jars/*" kafka.Kafka "$data/server.properties"
