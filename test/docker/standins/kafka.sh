#!/bin/bash
# Stands for the entry point of apache/kafka: KAFKA_LOG_DIRS becomes log.dirs, and the first start formats the directory.
set -eu
heap=${KAFKA_HEAP_OPTS:-}
unset KAFKA_HEAP_OPTS
env | sed -n 's/^KAFKA_//p' | while IFS='=' read -r name value; do
	name=${name,,}
	printf '%s=%s\n' "${name//_/.}" "$value"
done >/tmp/server.properties
options="$heap -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
if [ ! -f "$KAFKA_LOG_DIRS/meta.properties" ]; then
	java $options -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t "$CLUSTER_ID" -c /tmp/server.properties
fi
exec java $options -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
