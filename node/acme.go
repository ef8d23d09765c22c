package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// acmeDir is the directory of the account key and the certificates, in the data directory.
const acmeDir = "acme"

// checkCertificates is how often each certificate is checked. autocert renews one 30 days before it expires.
const checkCertificates = 12 * time.Hour

// obtainPause is the back-off after failed attempts: CAs refuse a name after five failures in an hour.
var obtainPause = wait.Backoff{First: time.Minute, Longest: time.Hour}

// acmeCertificates obtains and renews certificates for host names by ACME (RFC 8555). The CA validates the names with a
// TLS handshake (RFC 8737), or with a request to RELAY_HTTP_LISTEN if that is on.
type acmeCertificates struct {
	manager  *autocert.Manager
	hosts    []string
	log      *slog.Logger
	obtained sync.Map // of the hosts that have a certificate
}

// errNoCertificate ends a client's handshake before there is a certificate. It orders none: otherwise anyone could use
// up the CA's limit of failures for the name.
var errNoCertificate = errors.New("there is no certificate for this name yet")

func newACME(s *Config, log *slog.Logger) (*acmeCertificates, error) {
	dir := filepath.Join(s.DataDir, acmeDir)
	if err := private.EnsureDir(dir, ""); err != nil {
		return nil, fmt.Errorf("directory of the certificates: %w", err)
	}
	dialer, err := egress.NewOperatorDialer(s.EgressCAFile, s.DNSServer)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: dialer.Dial, TLSClientConfig: dialer.TLS().Clone(), ForceAttemptHTTP2: true,
		IdleConnTimeout: time.Minute}
	return &acmeCertificates{hosts: s.ACMEHosts, log: log, manager: &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir), HostPolicy: autocert.HostWhitelist(s.ACMEHosts...),
		Email: s.ACMEEmail, Client: &acme.Client{DirectoryURL: s.ACMEURL, UserAgent: "EventRelay/" + s.Version,
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute}},
	}}, nil
}

// config returns a TLS configuration that serves the certificate of the requested name, or of the first host if a
// client requests none, such as a probe that connects to an IP address.
func (a *acmeCertificates) config() *tls.Config {
	conf := a.manager.TLSConfig()
	conf.MinVersion = tls.VersionTLS12
	conf.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName == "" {
			named := *hello
			named.ServerName = a.hosts[0]
			hello = &named
		}
		_, obtained := a.obtained.Load(strings.ToLower(hello.ServerName))
		if !obtained && !slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // not the CA's validation
			return nil, errNoCertificate
		}
		return a.manager.GetCertificate(hello)
	}
	return conf
}

// Run obtains missing certificates, so that no client waits for one, and has autocert renew them, until ctx ends.
func (a *acmeCertificates) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, host := range a.hosts {
		all.Go(func() {
			for ctx.Err() == nil {
				a.obtain(ctx, host)
				if wait.For(ctx, checkCertificates) != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return nil
}

// obtain returns when there is a certificate for host.
func (a *acmeCertificates) obtain(ctx context.Context, host string) {
	// As a modern client's, so that autocert obtains the certificate that such clients get (ECDSA).
	hello := &tls.ClientHelloInfo{ServerName: host, SupportedVersions: []uint16{tls.VersionTLS13},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		pair, err := a.manager.GetCertificate(hello)
		if err == nil {
			a.obtained.Store(host, true)
			a.log.LogAttrs(ctx, slog.LevelInfo, "serving a certificate", slog.String("host", host),
				slog.Time("not_after", pair.Leaf.NotAfter))
			return
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot obtain a certificate, retrying: the name must resolve to this machine, "+
			"with port 443 at RELAY_LISTEN or port 80 at RELAY_HTTP_LISTEN", slog.String("host", host), slog.Any("error", err))
		if wait.For(ctx, obtainPause.After(attempt)) != nil {
			return
		}
	}
}
