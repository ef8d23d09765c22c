package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

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
