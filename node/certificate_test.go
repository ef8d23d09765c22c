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
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/nodeconfig"
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

// pemUntil is a certificate that expires at a time.
func pemUntil(t *testing.T, at time.Time) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at.Add(-time.Hour), NotAfter: at}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A chain expires with its first certificate, roots with their last one; a file that cannot be read has expired, and a
// replaced file counts at the next scrape.
func TestCertificateExpiry(t *testing.T) {
	early, late := time.Unix(1_800_000_000, 0), time.Unix(1_900_000_000, 0)
	dir := t.TempDir()
	path := filepath.Join(dir, "both.pem")
	write := func(certificates ...[]byte) {
		t.Helper()
		var text []byte
		for _, c := range certificates {
			text = append(text, c...)
		}
		must.Do(t, os.WriteFile(path, text, 0o600))
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("no certificate")})
	write(key, pemUntil(t, late), pemUntil(t, early))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(certificateExpiry(certificateFiles(nodeconfig.Config{
		TLSCertFile: path, KafkaTLS: path, EgressCAFile: filepath.Join(dir, "missing"),
	})))
	is := func(when string, want map[string]time.Time) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || len(families[0].GetMetric()) != len(want) {
			t.Fatalf("%s: %v, %v", when, families, err)
		}
		for _, m := range families[0].GetMetric() {
			setting := m.GetLabel()[0].GetValue()
			if got := m.GetGauge().GetValue(); got != float64(want[setting].Unix()) {
				t.Errorf("%s: %s expires at %v, want %v", when, setting, got, want[setting].Unix())
			}
		}
	}
	unread := time.Unix(0, 0)
	is("at first", map[string]time.Time{
		"RELAY_TLS_CERT_FILE": early, "RELAY_KAFKA_TLS": late, "RELAY_EGRESS_CA_FILE": unread})
	write(pemUntil(t, late))
	is("after it was replaced", map[string]time.Time{
		"RELAY_TLS_CERT_FILE": late, "RELAY_KAFKA_TLS": late, "RELAY_EGRESS_CA_FILE": unread})
	write(key)
	is("with a key alone", map[string]time.Time{
		"RELAY_TLS_CERT_FILE": unread, "RELAY_KAFKA_TLS": unread, "RELAY_EGRESS_CA_FILE": unread})
	if files := certificateFiles(nodeconfig.Config{KafkaTLS: "system"}); len(files) != 0 {
		t.Errorf("%v", files)
	}
}

// Every setting with certificates is watched.
func TestEveryCertificateSettingIsWatched(t *testing.T) {
	var s nodeconfig.Config
	want := map[string]bool{}
	settings := reflect.ValueOf(&s).Elem()
	for i := range settings.NumField() {
		name := settings.Type().Field(i).Tag.Get("flag")
		if strings.HasSuffix(name, "cert-file") || strings.HasSuffix(name, "ca-file") || name == "kafka-tls" {
			settings.Field(i).SetString("/file.pem")
			want["RELAY_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = true
		}
	}
	for _, file := range certificateFiles(s) {
		delete(want, file.setting)
	}
	if len(want) > 0 {
		t.Errorf("not watched: %v", want)
	}
}
