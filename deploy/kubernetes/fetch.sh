#!/usr/bin/env bash
# Builds Kubernetes, etcd, CoreDNS, kube-router, the network plug-ins, the adapter of Prometheus, the metrics server and
# Traefik from their Go modules, and Helm from that of deploy/helm, in bin/kubernetes: once per version, half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/bin/kubernetes
sum=$(cat deploy/kubernetes/fetch.sh deploy/kubernetes/{,network/,adapter/,metrics/,ingress/}go.{mod,sum} deploy/kubernetes/network/dns/*.go \
	deploy/helm/go.sum deploy/kubernetes/pause/*.go | cksum)
if [ "$(cat "$out/sum" 2>/dev/null)" = "$sum" ]; then
	exit 0
fi
echo "kubernetes: building it and what a cluster needs (half an hour, once)"
rm -rf "$out"
mkdir -p "$out/cni"
export CGO_ENABLED=0
version=$(go -C deploy/kubernetes list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r _ minor _ <<<"$version"
package=k8s.io/component-base/version # Kubernetes takes its version from the linker

# tools DIRECTORY OUTPUT PACKAGE... builds main packages.
tools() {
	local dir=$1 to=$2
	shift 2
	go build -C "$dir" -trimpath -o "$to" -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 \
		-X $package.gitMinor=$minor" "$@"
}
tools deploy/kubernetes "$out/" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
tools deploy/kubernetes "$out/etcd" go.etcd.io/etcd/server/v3
tools deploy/kubernetes "$out/pause" ./pause
tools deploy/kubernetes/network "$out/coredns" ./dns
tools deploy/kubernetes/network "$out/" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
tools deploy/kubernetes/network "$out/cni/" github.com/containernetworking/plugins/plugins/{ipam/host-local,main/bridge,main/loopback}
tools deploy/kubernetes/adapter "$out/" sigs.k8s.io/prometheus-adapter/cmd/adapter
tools deploy/kubernetes/metrics "$out/" sigs.k8s.io/metrics-server/cmd/metrics-server
tools deploy/kubernetes/ingress "$out/" github.com/traefik/traefik/v3/cmd/traefik
mkdir "$out/gateway"
cp --no-preserve=mode "$(go -C deploy/kubernetes/ingress list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)"/config/crd/standard/*.yaml \
	"$out/gateway"
tools deploy/helm "$out/helm" helm.sh/helm/v4/cmd/helm
printf '%s\n' "$sum" >"$out/sum"
