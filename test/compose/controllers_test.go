package compose

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// gateways are what administrators have made: classes of Ingresses, gateways and the settings of HAProxy.
const gateways = `---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: traefik}
spec: {controller: traefik.io/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: contour}
spec: {controller: projectcontour.io/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: haproxy}
spec: {controller: haproxy-ingress.github.io/controller}
---
apiVersion: v1
kind: Namespace
metadata: {name: gateways}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: traefik}
spec: {controllerName: traefik.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: traefik, namespace: gateways}
spec:
  gatewayClassName: traefik
  listeners: [{name: http, protocol: HTTP, port: 8000, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: contour}
spec: {controllerName: projectcontour.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: contour, namespace: gateways}
spec:
  gatewayClassName: contour
  listeners: [{name: http, protocol: HTTP, port: 80, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: haproxy, namespace: gateways}
data:
  http-port: "8000"
  https-port: "8443"
  bind-ip-addr-http: ` + controlAddress + `
  bind-ip-addr-tcp: ` + controlAddress + `
  bind-ip-addr-healthz: 127.0.0.1
  bind-ip-addr-stats: 127.0.0.1
`

// The ways of clients: by an Ingress with a certificate, and by a gateway or an Ingress without.
const (
	secure   = "https://hooks.example.com:8443"
	insecure = "http://hooks.example.com:8000"
	moved    = "http://hooks.example.com:8080" // by the gateway of Contour, which adds 8000 to the port of a listener
)

// A controller carries out the chart's Ingress, its HTTPRoute or both. docs/operate/kubernetes.md names its
// annotations and timeouts.
type controller struct {
	name     string
	settings []string // of the chart
	ways     []string
	run      func(t *testing.T, k *controlPlane) // starts it; it ends with the test
}

var controllers = []controller{
	{"Traefik", append(byIngress("traefik"), byGateway("traefik")...), []string{secure, insecure}, traefik},
	{"Contour", append(byIngress("contour"), `ingress.annotations.projectcontour\.io/response-timeout=infinity`,
		"gateway.enabled=false"), []string{secure, insecure}, contour},
	{"Contour as gateway", append(byGateway("contour"), "ingress.enabled=false", "gateway.timeouts.request=0s"),
		[]string{moved}, contourGateway},
	{"HAProxy", append(byIngress("haproxy"), `ingress.annotations.haproxy-ingress\.github\.io/timeout-server=75s`,
		"gateway.enabled=false"), []string{secure}, haproxy},
}

func byIngress(class string) []string {
	return []string{"ingress.enabled=true", "ingress.className=" + class, "ingress.tlsSecretName=hooks-tls"}
}

func byGateway(name string) []string {
	return []string{"gateway.enabled=true", "gateway.parentRefs[0].name=" + name,
		"gateway.parentRefs[0].namespace=gateways"}
}

// traefik serves Ingresses with TLS at one entry point, and the gateway at the other.
func traefik(t *testing.T, k *controlPlane) {
	pki := filepath.Join(k.dir, "pki")
	tokens := must.Get(os.ReadFile(filepath.Join(pki, "tokens")))(t)
	token, _, _ := strings.Cut(string(tokens), ",")
	args := []string{"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--entrypoints.web.address=" + controlAddress + ":8000",
		"--entrypoints.websecure.address=" + controlAddress + ":8443",
		"--entrypoints.websecure.http.tls=true", "--entrypoints.websecure.asdefault=true"}
	for _, provider := range []string{"kubernetesingress", "kubernetesgateway"} {
		args = append(args, "--providers."+provider+".endpoint=https://"+controlAddress+":6443",
			"--providers."+provider+".token="+token, "--providers."+provider+".certauthfilepath="+filepath.Join(pki, "ca.crt"))
	}
	background(t, exec.Command(k.program("traefik"), args...))
}

func contour(t *testing.T, k *controlPlane) {
	k.contour(t, "", 8000)
}

func contourGateway(t *testing.T, k *controlPlane) {
	k.contour(t, "gateway: {gatewayRef: {namespace: gateways, name: contour}}\n", 8080)
}

// contour runs Contour and Envoy. The settings of the former are empty or name a gateway. The custom resources that it
// does not find here are beyond the Gateway API's standard channel.
func (k *controlPlane) contour(t *testing.T, settings string, port int) {
	dir := t.TempDir()
	file, bootstrap := filepath.Join(dir, "contour.yaml"), filepath.Join(dir, "envoy.json")
	must.Do(t, os.WriteFile(file, []byte(settings), 0o600))
	args := []string{"serve", "--config-path", file, "--kubeconfig", filepath.Join(k.dir, "kubeconfig"),
		"--insecure", "--xds-address=127.0.0.1", "--xds-port=8101", "--disable-leader-election",
		"--http-address=127.0.0.1", "--health-address=127.0.0.1", "--stats-address=127.0.0.1",
		"--envoy-service-http-address=" + controlAddress, "--envoy-service-http-port=" + strconv.Itoa(port),
		"--envoy-service-https-address=" + controlAddress, "--envoy-service-https-port=8443"}
	for _, resource := range []string{"tlsroutes", "grpcroutes", "tcproutes", "backendtlspolicies"} {
		args = append(args, "--disable-feature="+resource)
	}
	background(t, exec.Command(k.program("contour"), args...))
	out, err := exec.Command(k.program("contour"), "bootstrap", "--xds-address=127.0.0.1", "--xds-port=8101",
		"--admin-address="+filepath.Join(dir, "admin.sock"), bootstrap).CombinedOutput()
	must.Do(t, err, "%s", out)
	background(t, exec.Command(k.program("envoy"),
		"-c", bootstrap, "--service-cluster", "contour", "--service-node", "one"))
}

// haproxy runs the controller, which finds its templates from where it is started and leaves HAProxy behind.
func haproxy(t *testing.T, k *controlPlane) {
	dir := t.TempDir()
	for _, d := range []string{"etc/haproxy", "var/run/haproxy", "var/lib/haproxy"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	must.Do(t, os.CopyFS(filepath.Join(dir, "etc/haproxy/lua"), os.DirFS(k.program("rootfs/etc/lua"))))
	t.Cleanup(func() {
		var pid int
		text, err := os.ReadFile(filepath.Join(dir, "var/run/haproxy/haproxy.pid"))
		if err != nil {
			return // it has not started
		}
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			t.Error(err)
			return
		}
		is.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	})
	cmd := exec.Command(k.program("haproxy-ingress"), "--kubeconfig", filepath.Join(k.dir, "kubeconfig"),
		"--local-filesystem-prefix", dir, "--configmap", "gateways/haproxy", "--update-status=false", "--watch-gateway=false",
		"--healthz-port=10354")
	cmd.Dir = k.program("")
	background(t, cmd)
}

// program is what fetch.sh has made.
func (k *controlPlane) program(name string) string {
	return filepath.Join(k.root, "bin/kubernetes", name)
}
