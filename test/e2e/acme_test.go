package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// startPebble starts Pebble, a CA for tests, which proves names at port of what dns says. It returns its directory, the
// file with the root of its own server, and the root of what it issues.
func startPebble(t *testing.T, port int, dns string) (directory, roots string, issued *x509.CertPool) {
	t.Helper()
	tool := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join(kit.Root(t), "tools")
		out, err := cmd.Output()
		if err != nil {
			kit.SkipMissing(t, "Pebble cannot be built: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	binary := tool("tool", "-n", "pebble")
	certs := filepath.Join(tool("list", "-m", "-f", "{{.Dir}}", "github.com/letsencrypt/pebble/v2"), "test", "certs")
	dir, listen, manage := t.TempDir(), kit.FreePort(t), kit.FreePort(t)
	config := filepath.Join(dir, "pebble.json")
	must.Do(t, os.WriteFile(config, must.Get(json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", listen), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", manage),
		"certificate": filepath.Join(certs, "localhost", "cert.pem"),
		"privateKey":  filepath.Join(certs, "localhost", "key.pem"), "httpPort": kit.FreePort(t), "tlsPort": port,
		"profiles": map[string]any{"default": map[string]any{"description": "default", "validityPeriod": 7776000}},
	}}))(t), 0o600))
	cmd := exec.Command(binary, "-config", config, "-dnsserver", dns)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Pebble: %s", &log)
		}
	})
	roots = filepath.Join(certs, "pebble.minica.pem")
	own, issued := x509.NewCertPool(), x509.NewCertPool()
	own.AppendCertsFromPEM(must.Get(os.ReadFile(roots))(t))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own}}}
	eventually(t, arrival, func() string {
		resp, err := client.Get(fmt.Sprintf("https://localhost:%d/roots/0", manage))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || !issued.AppendCertsFromPEM(text) {
			return fmt.Sprintf("no root: %v", err)
		}
		return ""
	})
	return fmt.Sprintf("https://localhost:%d/dir", listen), roots, issued
}

// A node obtains its certificate from a CA, serves HTTPS with it, keeps it over a restart, and sends browsers there. A
// client that is too early, or asks for another name, gets no certificate and orders none.
func TestCertificateByACME(t *testing.T) {
	t.Parallel()
	port, plain, dir := kit.FreePort(t), kit.FreePort(t), t.TempDir()
	const host = "relay.example.com"
	dns := websites.StartDNS(t)
	dns.SetAddrs(host, "127.0.0.1")
	directory, roots, issued := startPebble(t, port, dns.StartTCP(t))
	url := fmt.Sprintf("https://%s:%d", host, port)
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, "RELAY_ACME_HOSTS="+host, "RELAY_ACME_URL="+directory,
		"RELAY_EGRESS_CA_FILE="+roots, fmt.Sprintf("RELAY_HTTP_LISTEN=127.0.0.1:%d", plain))
	p.url = fmt.Sprintf("http://127.0.0.1:%d", port) // where it listens
	p.start()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: issued}, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.Replace(address, host, "127.0.0.1", 1))
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(method, url string) (*http.Response, error) {
		resp, err := client.Do(must.Get(http.NewRequest(method, url, nil))(t))
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	var leaf []byte
	answers := func() string {
		resp, err := get("GET", url+"/healthz")
		if err != nil {
			return err.Error()
		}
		if resp.StatusCode != 200 || resp.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		leaf = resp.TLS.PeerCertificates[0].Raw
		return ""
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the relay: %s", p.logs)
		}
	})
	eventually(t, arrival, answers)
	first := leaf
	for name, want := range map[string]bool{"": true, host: true, "other.example.com": false} {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{ServerName: name,
			InsecureSkipVerify: true})
		is.Equal(t, err == nil, want, "a client asks for the name %q: %v", name, err)
		if err == nil {
			conn.Close()
		}
	}
	at := fmt.Sprintf("http://127.0.0.1:%d", plain)
	resp := must.Get(get("GET", at+"/app/events?x=a%2Fb"))(t)
	if resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != url+"/app/events?x=a%2Fb" {
		t.Errorf("%d to %s", resp.StatusCode, resp.Header.Get("Location"))
	}
	for method, path := range map[string]string{"POST": "/v1/endpoints", "GET": "/in/token"} {
		if resp := must.Get(get(method, at+path))(t); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s in plain HTTP: %d", method, path, resp.StatusCode)
		}
	}
	if out, err := p.output("ready", "--listen", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		t.Errorf("ready: %v %s", err, out)
	}
	p.kill()
	p.start()
	eventually(t, arrival, answers)
	if !bytes.Equal(leaf, first) {
		t.Error("a restart ordered another certificate")
	}
}
