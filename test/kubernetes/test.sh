#!/usr/bin/env bash
# Installs the Helm chart of the last commit on a Kubernetes cluster of its own (cluster.sh), with stand-ins for Kafka,
# ClickHouse and Redis, and runs TestKubernetes of test/compose (make torture PART=kubernetes). Needs root, dockerd,
# containerd, iptables, nsenter and what images.sh needs. Its data lie in one directory, RELAY_TEST_DIR or below
# /var/tmp, and take 20 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/docker/docker.sh
version=$(cat VERSION)
work=$(mktemp -d "${RELAY_TEST_DIR:-/var/tmp}/relay-kubernetes.XXXXXX")
clean() {
	stop_docker
	[ ! -e "$work/cluster/pids" ] || test/kubernetes/cluster.sh down "$work/cluster" || true
	rm -rf --one-file-system "$work"
}
trap clean EXIT
export TMPDIR=$work
test/kubernetes/fetch.sh

mkdir "$work/docker" "$work/cluster" "$work/pause"
start_docker "$work/docker"
git clone -q . "$work/clone"
test/docker/images.sh "$work/clone"
build_receiver "$work/receiver"
cp bin/kubernetes/pause "$work/pause"
printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' >"$work/pause/Dockerfile"
docker build -q --network none -t localhost/pause:1 "$work/pause" >/dev/null
docker tag "eventrelay/relay:$version" eventrelay/relay:next
mapfile -t images < <(sed -n 's/^ *image: \(\(apache\/kafka\|redis\|clickhouse\/clickhouse-server\):.*\)/\1/p' docker-compose.yml | sort -u)
docker save -o "$work/images.tar" localhost/pause:1 "eventrelay/relay:$version" eventrelay/relay:next \
	eventrelay/receiver:1.0 "${images[@]}"
stop_docker
rm -rf "$work/docker"

test/kubernetes/cluster.sh up "$work/cluster"
test/kubernetes/cluster.sh images "$work/cluster" "$work/images.tar"
rm "$work/images.tar"
kubectl=$work/cluster/kubectl
edits=()
for image in "${images[@]}"; do edits+=(-e "s|image: ${image%:*}:.*|image: $image|"); done
sed "${edits[@]}" test/kubernetes/engines.yaml | "$kubectl" apply -f - >/dev/null
"$kubectl" -n engines wait --for=condition=Ready --timeout=5m pod --all >/dev/null
key() { printf -- '--from-literal=%s=%s ' "$1" "$2"; }
master=$(openssl rand -base64 32)
for secret in eventrelay:relay-of-the-test-0123456789 wrong:another; do
	"$kubectl" -n hooks create secret generic "${secret%%:*}" $(key master_keys "main:$master") \
		$(key redis_url redis://redis.engines:6379) \
		$(key clickhouse_url "http://relay:${secret#*:}@clickhouse.engines:8123/relay") >/dev/null
done
broker=kafka.engines.svc.cluster.local:9092
cat >"$work/cluster/values.yaml" <<EOF
image: {repository: eventrelay/relay, pullPolicy: Never}
baseURL: https://hooks.example.com
trustedProxies: [10.99.0.0/24]
kafka: {brokers: [kafka-0.$broker, kafka-1.$broker, kafka-2.$broker]}
secrets: {secretName: eventrelay}
settings: {RELAY_EGRESS_ALLOW_HTTP: true}
egress: {allow: [10.96.0.0/16, 10.244.0.0/16]}
$(for group in ingest api dispatch write node; do echo "$group: {resources: {requests: {cpu: 50m, memory: 64Mi}}}"; done)
EOF
RELAY_TEST_KUBERNETES=$work/cluster RELAY_TEST_CHART=$work/clone/deploy/chart/eventrelay \
	nsenter --net=/run/netns/relay-k8s-a "$work/receiver/receiver" -test.v -test.timeout 40m -test.run '^TestKubernetes$'
