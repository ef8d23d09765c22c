package compose

import (
	"bufio"
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
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

// serviceEndpoints is the same for controllers that do not read EndpointSlices: name, address and port.
const serviceEndpoints = `---
apiVersion: v1
kind: Endpoints
metadata: {name: eventrelay-%s, namespace: hooks}
subsets: [{addresses: [{ip: %q}], ports: [{name: http, port: %s, protocol: TCP}]}]
`

const (
	slowestAnswer = 70 * time.Second // of the API; a controller has to wait 75 s
	streamPause   = 15 * time.Second // at most, between the events of a stream
	streamEvents  = 6                // so that it takes 75 s
	largestBody   = 10 << 20         // what RELAY_MAX_BODY may be
)

// Traefik, Contour and HAProxy send what providers and applications send to "ingest" and all else to "api", with the
// path as it came, for the host of the base URL alone, and with the certificate of its Secret. The largest body, the
// slowest answer and a stream pass with the settings that docs/operate/kubernetes.md names.
func TestIngress(t *testing.T) {
	k := newControlPlane(t)
	k.must("kubectl", "apply", "--server-side", "-f", filepath.Join(k.root, "bin/kubernetes/gateway"),
		"-f", filepath.Join(k.root, "bin/kubernetes/contour.yaml"))
	k.must("kubectl", "wait", "--for=condition=Established", "--timeout=1m", "crd", "httproutes.gateway.networking.k8s.io",
		"httpproxies.projectcontour.io")
	k.installObjects()
	ca := kit.NewCA(t)
	pair := ca.Issue(t, "hooks.example.com", time.Now().Add(time.Hour))
	k.kubectl("create", "secret", "tls", "hooks-tls", "--cert", pair.CertFile, "--key", pair.KeyFile)
	k.apply(gateways)
	services := k.serviceOf("ingest") + k.serviceOf("api")
	for _, c := range controllers {
		t.Run(c.name, func(t *testing.T) {
			k.installObjects(c.settings...)
			k.apply(services) // Kubernetes changes Endpoints as pods come and go
			c.run(t, k)
			for _, way := range c.ways {
				k.routes(t, k.clientOf(ca), way)
			}
			k.passes(t, k.clientOf(ca), c.ways)
			if slices.Contains(c.settings, "gateway.enabled=true") {
				conditions := k.kubectl("get", "httproute", "eventrelay", "-o",
					"jsonpath={range .status.parents[*].conditions[*]}{.type}={.status} {end}")
				if !strings.Contains(conditions, "Accepted=True") || !strings.Contains(conditions, "ResolvedRefs=True") {
					t.Errorf("the gateway says %s", conditions)
				}
			}
		})
	}
}

// docs/operate/kubernetes.md names the settings with which TestIngress passes.
func TestSettingsOfControllersAreDocumented(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/operate/kubernetes.md"))(t)
	found := 0
	for _, c := range controllers {
		for _, setting := range c.settings {
			for _, group := range []string{"ingress.annotations.", "gateway.timeouts."} {
				rest, special := strings.CutPrefix(setting, group)
				if !special {
					continue
				}
				found++
				text := strings.NewReplacer(`\.`, ".", "=", ": ").Replace(rest)
				is.Has(t, string(page), text, "docs/operate/kubernetes.md lacks %q, which %s needs", text, c.name)
			}
		}
	}
	if found == 0 {
		t.Error("no controller has settings of its own: this test looks for the wrong names")
	}
}

// routes requests paths by the address of a controller.
func (k *controlPlane) routes(t *testing.T, client *http.Client, way string) {
	t.Helper()
	client.Timeout = 5 * time.Second
	for path, service := range map[string]string{
		"/in/abc": "ingest", "/in/a%2Fb?x=1&y=%20": "ingest", "/drain/abc": "ingest", "/api/1/envelope/": "ingest",
		"/": "api", "/v1/endpoints?limit=1": "api", "/app/": "api", "/inbox": "api", "/apis/": "api",
	} {
		kit.Eventually(t, time.Minute, func() string {
			status, body, err := answer(client, http.MethodGet, way+path, "", nil)
			if want := service + " " + path + " 0"; err != nil || body != want {
				return fmt.Sprintf("%s%s answers %d %q %v, want %q", way, path, status, body, err, want)
			}
			return ""
		})
	}
	// HTTP/2 has 421 for a host that the certificate does not name.
	status, body, err := answer(client, http.MethodGet, way+"/in/abc", "other.example.com", nil)
	if err != nil || status != http.StatusNotFound && status != http.StatusMisdirectedRequest {
		t.Errorf("%s for another host answers %d %q %v", way, status, body, err)
	}
}

// passes sends the largest body, and waits for the slowest answer and for a stream.
func (k *controlPlane) passes(t *testing.T, client *http.Client, ways []string) {
	t.Helper()
	client.Timeout = kit.BusyFactor * slowestAnswer
	var running sync.WaitGroup
	defer running.Wait()
	for _, way := range ways {
		largest := bytes.Repeat([]byte("x"), largestBody)
		status, body, err := answer(client, http.MethodPost, way+"/in/abc", "", largest)
		if want := fmt.Sprint("ingest /in/abc ", len(largest)); err != nil || body != want {
			t.Errorf("the largest body to %s: %d %q %v", way, status, body, err)
		}
		running.Go(func() {
			status, body, err := answer(client, http.MethodGet, way+"/in/slow", "", nil)
			if want := "ingest /in/slow 0"; err != nil || body != want {
				t.Errorf("the slowest answer of %s: %d %q %v", way, status, body, err)
			}
		})
		running.Go(func() {
			start := time.Now()
			res, err := client.Get(way + "/v1/endpoints/ep_1/stream")
			if err != nil {
				t.Errorf("the stream of %s: %v", way, err)
				return
			}
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			for n := range streamEvents {
				if !lines.Scan() || lines.Text() != fmt.Sprint("api ", n) {
					t.Errorf("the stream of %s after %v: line %d is %q, %v", way, time.Since(start), n, lines.Text(), lines.Err())
					return
				}
				if n == 0 && time.Since(start) > streamPause {
					t.Errorf("the stream of %s is buffered: its first line came after %v", way, time.Since(start))
				}
			}
		})
	}
}

// serviceOf runs a server that answers with the name of a Service, the path of the request and the size of its body,
// and returns the objects that put it behind that Service.
func (k *controlPlane) serviceOf(name string) string {
	k.t.Helper()
	listener := must.Get(net.Listen("tcp", controlAddress+":0"))(k.t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/in/slow":
			time.Sleep(slowestAnswer)
		case "/v1/endpoints/ep_1/stream":
			for n := range streamEvents {
				if n > 0 {
					time.Sleep(streamPause)
				}
				fmt.Fprintln(w, name, n)
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, name, " ", r.RequestURI, " ", size)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	k.t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(listener.Addr().String())
	must.Do(k.t, err)
	return fmt.Sprintf(serviceEndpoint, name, name, host, port) + fmt.Sprintf(serviceEndpoints, name, host, port)
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
	return &http.Client{Transport: &http.Transport{
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

// answer sends a request, for another host if one is given.
func answer(client *http.Client, method, url, host string, body []byte) (status int, text string, err error) {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Host = cmp.Or(host, req.Host)
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	return res.StatusCode, string(read), err
}
