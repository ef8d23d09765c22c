package compose

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// serviceEndpoint makes a test server an endpoint of a Service of the release: name, name, address and port.
const serviceEndpoint = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: test-%s, namespace: hooks, labels: {kubernetes.io/service-name: eventrelay-%s}}
addressType: IPv4
endpoints: [{addresses: [%q], conditions: {ready: true}}]
ports: [{name: http, port: %s, protocol: TCP}]
`

// classes are what an administrator has: the class of Ingresses, and a gateway.
const classes = `---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: traefik}
spec: {controller: traefik.io/ingress-controller}
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
metadata: {name: public, namespace: gateways}
spec:
  gatewayClassName: traefik
  listeners: [{name: http, protocol: HTTP, port: 8000, allowedRoutes: {namespaces: {from: All}}}]
`

// Traefik, as ingress controller and as gateway, sends what providers and applications send to "ingest" and all else to
// "api", with the path as it came, for the host of the base URL alone. The Ingress has the certificate of its Secret.
func TestIngress(t *testing.T) {
	k := newControlPlane(t)
	k.must("kubectl", "apply", "--server-side", "-f", filepath.Join(k.root, "bin/kubernetes/gateway"))
	k.must("kubectl", "wait", "--for=condition=Established", "--timeout=1m", "crd", "httproutes.gateway.networking.k8s.io")
	k.installObjects("ingress.enabled=true", "ingress.className=traefik", "ingress.tlsSecretName=hooks-tls",
		"gateway.enabled=true", "gateway.parentRefs[0].name=public", "gateway.parentRefs[0].namespace=gateways")
	ca := kit.NewCA(t)
	pair := ca.Issue(t, "hooks.example.com", time.Now().Add(time.Hour))
	k.kubectl("create", "secret", "tls", "hooks-tls", "--cert", pair.CertFile, "--key", pair.KeyFile)
	k.apply(classes + k.serviceOf("ingest") + k.serviceOf("api"))

	pki := filepath.Join(k.dir, "pki")
	tokens, err := os.ReadFile(filepath.Join(pki, "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	token, _, _ := strings.Cut(string(tokens), ",")
	args := []string{"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--entrypoints.web.address=" + controlAddress + ":8000",
		"--entrypoints.websecure.address=" + controlAddress + ":8443",
		"--entrypoints.websecure.http.tls=true", "--entrypoints.websecure.asdefault=true"}
	for _, provider := range []string{"kubernetesingress", "kubernetesgateway"} {
		args = append(args, "--providers."+provider+".endpoint=https://"+controlAddress+":6443",
			"--providers."+provider+".token="+token, "--providers."+provider+".certauthfilepath="+filepath.Join(pki, "ca.crt"))
	}
	background(t, filepath.Join(k.root, "bin/kubernetes/traefik"), args...)

	client, requests := k.clientOf(ca), 0
	ways := []string{"https://hooks.example.com:8443", "http://hooks.example.com:8000"}
	for _, way := range ways {
		for path, service := range map[string]string{
			"/in/abc": "ingest", "/in/a%2Fb?x=1&y=%20": "ingest", "/drain/abc": "ingest", "/api/1/envelope/": "ingest",
			"/": "api", "/v1/endpoints?limit=1": "api", "/app/": "api", "/inbox": "api", "/apis/": "api",
		} {
			kit.Eventually(t, time.Minute, func() string { return answer(client, way+path, "", service+" "+path) })
			requests++
		}
	}
	for _, way := range ways {
		if wrong := answer(client, way+"/in/abc", "other.example.com", "404 page not found\n"); wrong != "" {
			t.Error(wrong)
		}
	}
	conditions := k.kubectl("get", "httproute", "eventrelay", "-o",
		"jsonpath={range .status.parents[*].conditions[*]}{.type}={.status} {end}")
	if !strings.Contains(conditions, "Accepted=True") || !strings.Contains(conditions, "ResolvedRefs=True") {
		t.Errorf("the gateway says %s", conditions)
	}
	t.Logf("%d requests by Ingress and HTTPRoute reached their Service", requests)
}

// serviceOf runs a server that answers with the name of a Service and the path of the request, and returns the object
// that puts it behind that Service.
func (k *controlPlane) serviceOf(name string) string {
	k.t.Helper()
	listener, err := net.Listen("tcp", controlAddress+":0")
	if err != nil {
		k.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.RequestURI)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	k.t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprintf(serviceEndpoint, name, name, host, port)
}

// clientOf returns a client that finds every host at the control plane and trusts one authority.
func (k *controlPlane) clientOf(ca *kit.CA) *http.Client {
	k.t.Helper()
	text, err := os.ReadFile(ca.File)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		k.t.Fatal("cannot read the certificate of the authority: ", err)
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(controlAddress, port))
		},
	}}
}

// answer requests a URL, for another host if one is given, and says what differs from the answer that is wanted.
func answer(client *http.Client, url, host, want string) string {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	req.Host = cmp.Or(host, req.Host)
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != want {
		return fmt.Sprintf("%s answers %d %q %v, want %q", url, res.StatusCode, body, err, want)
	}
	return ""
}
