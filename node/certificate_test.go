package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// pairFor returns a new certificate for a name, and its key, as PEM.
func pairFor(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	encoded := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// A server loads new certificate files while it serves, for HTTP/2 too. If the files do not match, are cut off or are
// missing, it keeps the previous pair and logs that once. Open connections continue.
func TestCertificateIsReloaded(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(path string, b []byte) {
		t.Helper()
		next := path + ".next" // replaced by rename, as programs that renew certificates do
		must.Do(t, os.WriteFile(next, b, 0o600))
		must.Do(t, os.Rename(next, path))
	}
	cert, key := pairFor(t, "one.test")
	write(certFile, cert)
	write(keyFile, key)
	var logged kit.Tail
	log := slog.New(slog.NewTextHandler(&logged, nil))
	c := must.Get(newCertificate(certFile, keyFile, log))(t)
	c.every = 5 * time.Millisecond
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := &server{listener: listener, certificates: c, log: log, drain: time.Minute,
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto)
		})}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		is.OK(t, srv.Run(ctx), "Run")
	})
	defer running.Wait()
	defer stop()

	persistent := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer persistent.CloseIdleConnections()
	served := func() string {
		t.Helper()
		conn := must.Get(tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}))(t)
		defer conn.Close()
		resp := must.Get(persistent.Get("https://" + listener.Addr().String()))(t)
		defer resp.Body.Close()
		if proto, _ := io.ReadAll(resp.Body); string(proto) != "HTTP/2.0" {
			t.Errorf("the persistent connection speaks %q", proto)
		}
		return strings.Join(conn.ConnectionState().PeerCertificates[0].DNSNames, " ")
	}
	becomes := func(name string) {
		t.Helper()
		kit.Eventually(t, 20*time.Second, func() string {
			if got := served(); got != name {
				return "served with " + got + ", want " + name
			}
			return ""
		})
	}
	warnings := func() int { return strings.Count(logged.String(), "cannot use the new TLS certificate") }
	before := 0 // warnings while both files were being replaced: two reloads may come between them
	warned := func(times int) {
		t.Helper()
		kit.Eventually(t, 20*time.Second, func() string {
			if warnings() < before+times {
				return "no warning about files that cannot be used"
			}
			return ""
		})
		got := warnings() - before
		if name := served(); name != "two.test" || got != times {
			t.Errorf("served with %s, warned %d times, want %d", name, got, times)
		}
	}
	becomes("one.test")
	cert, key = pairFor(t, "two.test")
	write(certFile, cert)
	write(keyFile, key)
	becomes("two.test")
	before = warnings()

	other, otherKey := pairFor(t, "three.test")
	write(certFile, other) // without the matching key
	warned(1)
	write(certFile, other[:len(other)/2])
	warned(2)
	must.Do(t, os.Remove(keyFile))
	warned(3)
	write(certFile, other)
	write(keyFile, otherKey)
	becomes("three.test")
	if strings.Contains(logged.String(), "PRIVATE KEY") || bytes.Contains([]byte(logged.String()), otherKey[40:60]) {
		t.Error("the log holds a key")
	}
}

// A node does not start with files that it cannot use. The error names the settings.
func TestServeRefusesBrokenCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, _ := pairFor(t, "one.test")
	_, key := pairFor(t, "two.test")
	for name, c := range map[string]struct{ cert, key []byte }{"missing": {}, "of another key": {cert, key}} {
		for file, b := range map[string][]byte{"cert": c.cert, "key": c.key} {
			if b == nil {
				continue
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, file), b, 0o600))
		}
		_, err := newCertificate(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), slog.New(slog.DiscardHandler))
		is.Failed(t, err, "RELAY_TLS_CERT_FILE", name)
	}
}
