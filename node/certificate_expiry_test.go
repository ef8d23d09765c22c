package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/test/must"
)

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
	registry.MustRegister(certificateExpiry(Config{
		TLSCertFile: path, KafkaTLS: path, EgressCAFile: filepath.Join(dir, "missing"),
	}.certificateFiles()))
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
	if files := (Config{KafkaTLS: "system"}).certificateFiles(); len(files) != 0 {
		t.Errorf("%v", files)
	}
}

// Every setting with certificates is watched.
func TestEveryCertificateSettingIsWatched(t *testing.T) {
	var s Config
	want := map[string]bool{}
	settings := reflect.ValueOf(&s).Elem()
	for i := range settings.NumField() {
		name := settings.Type().Field(i).Tag.Get("flag")
		if strings.HasSuffix(name, "cert-file") || strings.HasSuffix(name, "ca-file") || name == "kafka-tls" {
			settings.Field(i).SetString("/file.pem")
			want["RELAY_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = true
		}
	}
	for _, file := range s.certificateFiles() {
		delete(want, file.setting)
	}
	if len(want) > 0 {
		t.Errorf("not watched: %v", want)
	}
}
