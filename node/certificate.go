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

// reloadEvery is how soon new certificate files are served. They are read as a whole each time: modification
// times miss files that are exchanged within their resolution, and a mount may show any.
const reloadEvery = 5 * time.Second

// certificate is what HTTPS is served with. New files are taken while it serves: a pair that cannot be used leaves
// the one before.
type certificate struct {
	certFile, keyFile string
	every             time.Duration
	log               *slog.Logger

	current atomic.Pointer[tls.Certificate]
	loaded  string // what the files held, when they were last used
	refused string // why they could not be, when they were last read; used by Run alone, as is
	told    bool   // that it was logged
}

// newCertificate reads the files; at the start they must be right.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, every: reloadEvery, log: log}
	pair, held, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("load RELAY_TLS_CERT_FILE and RELAY_TLS_KEY_FILE: %w", err)
	}
	c.current.Store(pair)
	c.loaded = held
	return c, nil
}

// config serves the newest pair; connections that stand keep theirs.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Run looks at the files until ctx ends.
func (c *certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.look()
		}
	}
}

// look takes what is new. Two files are seldom exchanged at one moment, so a pair that does not fit is told of
// when it is still the same at the next look.
func (c *certificate) look() {
	pair, held, err := c.read()
	switch {
	case err == nil && held == c.loaded:
		c.refused, c.told = "", false
	case err == nil:
		c.current.Store(pair)
		c.loaded, c.refused, c.told = held, "", false
		c.log.Info("new TLS certificate", "file", c.certFile, "names", pair.Leaf.DNSNames, "not_after", pair.Leaf.NotAfter)
	case held+err.Error() != c.refused:
		c.refused, c.told = held+err.Error(), false
	case !c.told:
		c.told = true
		c.log.Warn("new TLS certificate cannot be used, serving the one before", "file", c.certFile, "key", c.keyFile,
			"error", err)
	}
}

// read returns the pair and what both files hold.
func (c *certificate) read() (*tls.Certificate, string, error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return nil, "", err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return nil, string(cert), err
	}
	held := string(cert) + string(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, held, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, held, nil
}
