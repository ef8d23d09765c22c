#!/usr/bin/env bash
# Runs a Kubernetes cluster of two nodes in network namespaces of its own: cluster.sh up DIR, cluster.sh images DIR
# TAR..., cluster.sh down DIR; cluster.sh control DIR runs one without nodes. DIR/kubectl and DIR/helm run these
# programs against it; DIR has all of its data and the log of each program. Pods reach nothing outside the cluster.
# Needs root, containerd, iptables and what fetch.sh builds. Files of CNI and the kubelet stay below /var/lib.
set -euo pipefail
command=$1
dir=$(realpath "$2")
shift 2
bin=$(cd "$(dirname "$0")/../.." && pwd)/bin/kubernetes
api=10.99.0.1
services=10.96.0.0/16
nodes=(a b)

# start NAME NAMESPACE COMMAND... starts a program in a network namespace. "ip netns exec" would hide the cgroups from it.
start() {
	local name=$1 net=$2
	shift 2
	(exec nsenter --net="/run/netns/relay-k8s-$net" "$@" >"$dir/$name.log" 2>&1 </dev/null) &
	echo $! >>"$dir/pids"
}

# certificates makes those of the API server, and a token with all rights.
certificates() {
	local pki=$dir/pki token
	mkdir -p "$pki"
	token=$(openssl rand -hex 16)
	{
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/ca.key" -out "$pki/ca.crt" \
			-subj /CN=ca -days 30
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/api.key" -out "$pki/api.csr" \
			-subj /CN=kube-apiserver
		echo "subjectAltName=IP:$api,IP:10.96.0.1" >"$pki/names"
		openssl x509 -req -in "$pki/api.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -out "$pki/api.crt" \
			-days 30 -extfile "$pki/names"
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/proxy.key" -out "$pki/proxy.csr" \
			-subj /CN=front-proxy
		openssl x509 -req -in "$pki/proxy.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -out "$pki/proxy.crt" \
			-days 30
		openssl genrsa -out "$pki/accounts.key" 2048
		openssl rsa -in "$pki/accounts.key" -pubout -out "$pki/accounts.pub"
	} 2>/dev/null
	echo "$token,admin,admin,system:masters" >"$pki/tokens"
	cat >"$dir/kubeconfig" <<-EOF
		apiVersion: v1
		kind: Config
		clusters: [{name: relay, cluster: {server: "https://$api:6443", certificate-authority: $pki/ca.crt}}]
		users: [{name: admin, user: {token: $token}}]
		contexts: [{name: relay, context: {cluster: relay, user: admin}}]
		current-context: relay
	EOF
	for program in kubectl helm; do
		printf '#!/bin/sh\nexec nsenter --net=/run/netns/relay-k8s-cp "%s" --kubeconfig "%s" "$@"\n' "$bin/$program" \
			"$dir/kubeconfig" >"$dir/$program"
		chmod +x "$dir/$program"
	done
}

# control starts everything but the nodes. The namespace has a bridge that connects them.
control() {
	local pki=$dir/pki
	ip netns add relay-k8s-cp
	ip -n relay-k8s-cp link set lo up
	ip -n relay-k8s-cp link add br0 type bridge
	ip -n relay-k8s-cp addr add $api/24 dev br0
	ip -n relay-k8s-cp link set br0 up
	ip -n relay-k8s-cp route add default via $api
	start etcd cp "$bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
	start apiserver cp "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=$api \
		--advertise-address=$api --secure-port=6443 --tls-cert-file="$pki/api.crt" --tls-private-key-file="$pki/api.key" \
		--client-ca-file="$pki/ca.crt" --token-auth-file="$pki/tokens" --service-account-key-file="$pki/accounts.pub" \
		--service-account-signing-key-file="$pki/accounts.key" --service-account-issuer=https://kubernetes.default \
		--service-cluster-ip-range=$services --authorization-mode=Node,RBAC --kubelet-preferred-address-types=InternalIP \
		--requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy \
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
		--requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file="$pki/proxy.crt" \
		--proxy-client-key-file="$pki/proxy.key" --enable-aggregator-routing=true
	for _ in $(seq 120); do
		"$dir/kubectl" get --raw /readyz >/dev/null 2>&1 && break
		sleep 1
	done
	"$dir/kubectl" get --raw /readyz >/dev/null
	start controller-manager cp "$bin/kube-controller-manager" --kubeconfig="$dir/kubeconfig" \
		--service-account-private-key-file="$pki/accounts.key" --root-ca-file="$pki/ca.crt" --bind-address=127.0.0.1 \
		--leader-elect=false --horizontal-pod-autoscaler-sync-period=5s
	start scheduler cp "$bin/kube-scheduler" --kubeconfig="$dir/kubeconfig" --bind-address=127.0.0.1 --leader-elect=false
	cat >"$dir/Corefile" <<-EOF
		.:53 {
			errors
			kubernetes cluster.local {
				kubeconfig $dir/kubeconfig relay
			}
			cache 5
		}
	EOF
	start coredns cp "$bin/coredns" -conf "$dir/Corefile"
}

# node NAME NUMBER starts a node: containerd, the kubelet and kube-proxy.
node() {
	local name=$1 number=$2 at=$dir/node-$1 address=10.99.0.1$2 net=relay-k8s-$1 other
	mkdir -p "$at/cni"
	ip netns add "$net"
	ip -n "$net" link set lo up
	ip link add "relay-k8s-$name" netns relay-k8s-cp type veth peer name eth0 netns "$net"
	ip -n relay-k8s-cp link set "relay-k8s-$name" master br0 up
	ip -n relay-k8s-cp route add "10.244.$number.0/24" via "$address" onlink dev br0
	ip -n "$net" addr add "$address/24" dev eth0
	ip -n "$net" link set eth0 up
	ip -n "$net" route add default via $api
	for other in "${!nodes[@]}"; do
		[ "${nodes[$other]}" = "$name" ] ||
			ip -n "$net" route add "10.244.$((other + 1)).0/24" via "10.99.0.1$((other + 1))"
	done
	nsenter --net="/run/netns/$net" sysctl -qw net.ipv4.ip_forward=1
	cat >"$at/cni/10.conflist" <<-EOF
		{"cniVersion": "0.4.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {"type": "host-local",
		    "dataDir": "$at/ipam", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "loopback"}]}
	EOF
	cat >"$at/containerd.toml" <<-EOF
		version = 2
		root = "$at/containerd"
		state = "$at/state"
		[grpc]
		  address = "$at/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  restrict_oom_score_adj = true
		  netns_mounts_under_state_dir = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "$bin/cni"
		    conf_dir = "$at/cni"
	EOF
	cat >"$at/kubelet.yaml" <<-EOF
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		address: $address
		healthzPort: 0
		clusterDNS: [$api]
		clusterDomain: cluster.local
		cgroupDriver: cgroupfs
		cgroupRoot: /$net
		enforceNodeAllocatable: []
		failSwapOn: false
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, nodefs.inodesFree: "0%", imagefs.available: 1Gi}
		containerRuntimeEndpoint: unix://$at/containerd.sock
		podLogsDir: $at/logs
		resolvConf: ""
		volumePluginDir: $at/volume-plugins
	EOF
	local group
	for group in /sys/fs/cgroup/*/; do
		[ -e "$group/tasks" ] || continue # version 2 has one tree
		mkdir -p "$group/$net"
		[ ! -e "$group/cpuset.cpus" ] || for file in cpuset.cpus cpuset.mems; do cat "$group/$file" >"$group/$net/$file"; done
	done
	[ ! -e /sys/fs/cgroup/cgroup.controllers ] || mkdir -p "/sys/fs/cgroup/$net"
	start "containerd-$name" "$name" containerd --config "$at/containerd.toml"
	start "kubelet-$name" "$name" "$bin/kubelet" --config="$at/kubelet.yaml" --kubeconfig="$dir/kubeconfig" \
		--hostname-override="node-$name" --node-ip="$address" --root-dir="$at/kubelet" --cert-dir="$at/pki"
	start "proxy-$name" "$name" "$bin/kube-proxy" --kubeconfig="$dir/kubeconfig" --hostname-override="node-$name" \
		--proxy-mode=iptables --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0 --conntrack-min=0 \
		--conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 \
		--metrics-bind-address=127.0.0.1:10249 --healthz-bind-address="$address:10256"
}

# router NAME starts kube-router, for network policies alone. It ends if the API server does not know its node yet.
router() {
	start "router-$1" "$1" "$bin/kube-router" --run-router=false --run-service-proxy=false --run-loadbalancer=false \
		--run-firewall=true --kubeconfig="$dir/kubeconfig" --hostname-override="node-$1" \
		--service-cluster-ip-range=$services --metrics-port=0 --health-port=0
}

# metrics starts the metrics server, from which autoscalers read the CPU use of pods. It does not verify the kubelets'
# certificates, because they are self-signed here.
metrics() {
	start metrics-server cp "$bin/metrics-server" --kubeconfig="$dir/kubeconfig" --kubelet-insecure-tls \
		--kubelet-preferred-address-types=InternalIP --kubelet-request-timeout=5s --metric-resolution=15s \
		--bind-address=$api --secure-port=6444 --cert-dir="$dir/metrics" \
		--authentication-kubeconfig="$dir/kubeconfig" --authorization-kubeconfig="$dir/kubeconfig"
	"$dir/kubectl" apply -f - >/dev/null <<-EOF
		apiVersion: v1
		kind: Service
		metadata: {name: metrics-server, namespace: kube-system}
		spec: {ports: [{port: 443, targetPort: 6444}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: metrics-server, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}}
		addressType: IPv4
		endpoints: [{addresses: [$api]}]
		ports: [{port: 6444, protocol: TCP, name: ""}]
		---
		apiVersion: apiregistration.k8s.io/v1
		kind: APIService
		metadata: {name: v1beta1.metrics.k8s.io}
		spec:
		  service: {name: metrics-server, namespace: kube-system}
		  group: metrics.k8s.io
		  version: v1beta1
		  insecureSkipTLSVerify: true
		  groupPriorityMinimum: 100
		  versionPriority: 100
	EOF
}

# of_node NAME ARGUMENT... runs ctr.
of_node() {
	local at=$dir/node-$1
	shift
	ctr -a "$at/containerd.sock" -n k8s.io "$@"
}

stop() {
	local pid
	for pid in "$@"; do
		kill "$pid" 2>/dev/null || true
	done
	for pid in "$@"; do
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.2
		done
		kill -KILL "$pid" 2>/dev/null || true
	done
}

# The kubelet changes these for the whole machine.
kernel=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops)

case $command in
up | control)
	: >"$dir/pids"
	for name in "${kernel[@]}"; do sysctl "$name"; done | tr -d ' ' >"$dir/kernel"
	certificates
	control
	[ "$command" = up ] || exit 0
	for i in "${!nodes[@]}"; do node "${nodes[$i]}" $((i + 1)); done
	for _ in $(seq 120); do
		[ "$("$dir/kubectl" get nodes -o name | wc -l)" != "${#nodes[@]}" ] || break
		sleep 1
	done
	for name in "${nodes[@]}"; do router "$name"; done
	"$dir/kubectl" wait --for=condition=Ready --timeout=2m node --all >/dev/null
	metrics
	;;
images)
	for archive in "$@"; do
		for name in "${nodes[@]}"; do of_node "$name" images import "$archive" >/dev/null; done
	done
	;;
down)
	mapfile -t pids <"$dir/pids"
	stop $(pgrep -f "^$bin/kubelet --config=$dir" || true)
	for name in "${nodes[@]}"; do
		[ -e "$dir/node-$name" ] || continue
		of_node "$name" tasks ls -q | xargs -r -n 1 ctr -a "$dir/node-$name/containerd.sock" -n k8s.io tasks rm -f >/dev/null || true
		of_node "$name" containers ls -q | xargs -r ctr -a "$dir/node-$name/containerd.sock" -n k8s.io containers rm || true
	done
	stop "${pids[@]}"
	awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l || true
	sysctl -q -p "$dir/kernel" || true
	for name in cp "${nodes[@]}"; do
		ip netns del "relay-k8s-$name" 2>/dev/null || true
		find /sys/fs/cgroup -depth -type d -path "*/relay-k8s-$name*" -exec rmdir {} + 2>/dev/null || true
	done
	;;
esac
