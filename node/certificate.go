package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// certificates are what HTTPS serves: files, or what a CA issues.
type certificates interface {
	config() *tls.Config
	Run(ctx context.Context) error
}

// reloadInterval is how often the certificate files are read. They are read as a whole each time: a modification time
// can stay the same when a file is replaced, or be wrong on a mounted volume.
const reloadInterval = 5 * time.Second

// certificate holds the pair of certificate and key that HTTPS uses. It reloads changed files while it serves and keeps
// the old pair when the new one cannot be used.
type certificate struct {
	certFile, keyFile string
	every             time.Duration
	log               *slog.Logger

	current  atomic.Pointer[tls.Certificate]
	loaded   string // content of both files of current; this and the following fields are used by Run alone
	rejected string // content and error of the last pair that could not be used
	logged   bool   // the rejected pair was logged
}

// newCertificate reads the files and fails when they cannot be used.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, every: reloadInterval, log: log}
	pair, content, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("load RELAY_TLS_CERT_FILE and RELAY_TLS_KEY_FILE: %w", err)
	}
	c.current.Store(pair)
	c.loaded = content
	return c, nil
}

// config returns a TLS configuration that serves the newest pair to new connections.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Run reloads the files every reloadInterval until ctx ends.
func (c *certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.reload()
		}
	}
}

// reload starts to use a changed pair. The two files are seldom replaced at the same moment, so a pair that cannot be
// used is logged only when the next reload finds it unchanged.
func (c *certificate) reload() {
	pair, content, err := c.read()
	switch {
	case err == nil && content == c.loaded:
		c.rejected, c.logged = "", false
	case err == nil:
		c.current.Store(pair)
		c.loaded, c.rejected, c.logged = content, "", false
		c.log.Info("serving a new TLS certificate", "file", c.certFile, "names", pair.Leaf.DNSNames, "not_after",
			pair.Leaf.NotAfter)
	case content+err.Error() != c.rejected:
		c.rejected, c.logged = content+err.Error(), false
	case !c.logged:
		c.logged = true
		c.log.Warn("cannot use the new TLS certificate, serving the previous one", "file", c.certFile, "key", c.keyFile,
			"error", err)
	}
}

// read returns the pair and the content of both files.
func (c *certificate) read() (*tls.Certificate, string, error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return nil, "", err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return nil, string(cert), err
	}
	content := string(cert) + string(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, content, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, content, nil
}

// certificateFile is a PEM file that a setting names.
type certificateFile struct {
	setting, path string
	roots         bool // certificates to trust; otherwise the node's own one with its chain
}

// certificateFiles are the files with certificates that this node uses.
func certificateFiles(s nodeconfig.Config) (files []certificateFile) {
	add := func(setting, path string, roots bool) {
		if path != "" && path != "system" {
			files = append(files, certificateFile{setting, path, roots})
		}
	}
	add("RELAY_TLS_CERT_FILE", s.TLSCertFile, false)
	for _, host := range s.ACMEHosts {
		add("RELAY_ACME_HOSTS "+host, filepath.Join(s.DataDir, nodeconfig.ACMEDir, host), false)
	}
	add("RELAY_KAFKA_TLS", s.KafkaTLS, true)
	add("RELAY_KAFKA_CERT_FILE", s.KafkaCertFile, false)
	add("RELAY_REDIS_CA_FILE", s.RedisCAFile, true)
	add("RELAY_REDIS_CERT_FILE", s.RedisCertFile, false)
	add("RELAY_EGRESS_CA_FILE", s.EgressCAFile, true)
	return files
}

// certificateExpiry is a collector that reads the files at each scrape, because they are replaced while nodes run.
type certificateExpiry []certificateFile

var certificateExpiryDesc = prometheus.NewDesc("relay_certificate_expiry_timestamp_seconds",
	"When the certificates in the file of this setting expire: of a chain the first, of roots the last. 0 if none can be "+
		"read.", []string{"setting"}, nil)

// Describe implements prometheus.Collector.
func (c certificateExpiry) Describe(out chan<- *prometheus.Desc) { out <- certificateExpiryDesc }

// Collect implements prometheus.Collector.
func (c certificateExpiry) Collect(out chan<- prometheus.Metric) {
	for _, file := range c {
		seconds := 0.0
		if at, err := file.expiry(); err == nil {
			seconds = float64(at.Unix())
		}
		out <- prometheus.MustNewConstMetric(certificateExpiryDesc, prometheus.GaugeValue, seconds, file.setting)
	}
}

// expiry returns when a chain can no longer be used, which is when its first certificate expires. Of roots any that is
// valid may do: a file has the old and the new one while they are exchanged.
func (f certificateFile) expiry() (at time.Time, err error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return at, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // a key in the same file
		}
		if end := certificate.NotAfter; at.IsZero() || f.roots && end.After(at) || !f.roots && end.Before(at) {
			at = end
		}
	}
	if at.IsZero() {
		return at, errors.New("the file has no certificate")
	}
	return at, nil
}

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

func newACME(s *nodeconfig.Config, log *slog.Logger) (*acmeCertificates, error) {
	dir := filepath.Join(s.DataDir, nodeconfig.ACMEDir)
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
