package kit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// CA is a certificate authority for tests.
type CA struct {
	File string // PEM file with its certificate

	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

// NewCA creates a certificate authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{dir: t.TempDir()}
	ca.File = filepath.Join(ca.dir, "ca.pem")
	ca.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err == nil {
		ca.certificate, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, ca.File, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return ca
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file string, blocks ...*pem.Block) {
	t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Pair is a certificate with its key, in PEM files.
type Pair struct{ CertFile, KeyFile, BothFile string }

// Issue issues a certificate for a name, for 127.0.0.1 and localhost, that is valid from two days ago until a
// time. It serves and it connects.
func (ca *CA) Issue(t testing.TB, name string, until time.Time) Pair {
	t.Helper()
	ca.issued++
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + ca.issued), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	chain := []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "CERTIFICATE", Bytes: ca.certificate.Raw}}
	private := &pem.Block{Type: "PRIVATE KEY", Bytes: text}
	base := filepath.Join(ca.dir, name)
	p := Pair{CertFile: base + ".crt", KeyFile: base + ".key", BothFile: base + ".pem"}
	writePEM(t, p.CertFile, chain...)
	writePEM(t, p.KeyFile, private)
	writePEM(t, p.BothFile, slices.Insert(chain, 0, private)...)
	return p
}
