package sink

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// serveNetHTTP is serve with net/http, for TLS, HTTP/2 and bodies of unknown length.
func (s *Sink) serveNetHTTP(ctx context.Context, l net.Listener) {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				s.malformed.Add(1)
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.WriteHeader(s.receive(r.Context(), parsePath(r.URL.Path), body))
		}),
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(io.Discard, "", 0), // net/http logs idle connections that are closed
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	_ = server.Serve(l)
}

// listenTLS returns a TLS listener with a certificate for the listener's host, which it writes to file as PEM.
func listenTLS(l net.Listener, file string, http2 bool) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	der, err := WriteCertificate(file, host, key)
	if err != nil {
		return nil, err
	}
	protocols := []string{"http/1.1"}
	if http2 {
		protocols = []string{"h2", "http/1.1"}
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}), nil
}

// WriteCertificate creates a self-signed certificate of the key for an address, writes it to file as PEM and returns
// it.
func WriteCertificate(file, host string, key crypto.Signer) (der []byte, err error) {
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "relay-bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.ParseIP(host)}, DNSNames: []string{"localhost"},
	}
	if der, err = x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key); err != nil {
		return nil, fmt.Errorf("create certificate: %w", err)
	}
	return der, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}
