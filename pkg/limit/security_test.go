package limit

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// A limiter uses a real Redis that wants a client certificate. Whoever is refused, or refuses, names the setting.
func TestRedisWithTLS(t *testing.T) {
	ca, other := kit.NewCA(t), kit.NewCA(t)
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-24*time.Hour)
	valid := ca.Issue(t, "redis", tomorrow)
	mutual, expired := kit.SecureRedis(t, ca, valid, true), kit.SecureRedis(t, ca, ca.Issue(t, "old", yesterday), false)
	with := func(url string, ca *kit.CA, own kit.Pair) Config {
		cfg := DefaultConfig()
		cfg.URL, cfg.Timeout, cfg.CAFile = url, longTimeout, ca.File
		cfg.CertFile, cfg.KeyFile = own.CertFile, own.KeyFile
		return cfg
	}
	own := ca.Issue(t, "relay", tomorrow)
	right := with(mutual.URL, ca, own)
	l := node(t, right.URL, func(c *Config, _ *Deps) { *c = right })
	for _, want := range []claim.State{claim.New, claim.Pending} {
		if c := l.Claim(t.Context(), "key", newID(t), ""); c.State != want {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	if _, err := Ping(t.Context(), right); err != nil {
		t.Error(err)
	}

	for name, f := range map[string]struct {
		cfg  Config
		want string
	}{
		"an unknown CA":                 {with(mutual.URL, other, own), "RELAY_REDIS_CA_FILE"},
		"an expired server":             {with(expired.URL, ca, kit.Pair{}), "expired"},
		"no client certificate":         {with(mutual.URL, ca, kit.Pair{}), "RELAY_REDIS_CERT_FILE"},
		"a foreign client certificate":  {with(mutual.URL, ca, other.Issue(t, "relay", tomorrow)), "RELAY_REDIS_CERT_FILE"},
		"an expired client certificate": {with(mutual.URL, ca, ca.Issue(t, "gone", yesterday)), "RELAY_REDIS_CERT_FILE"},
	} {
		if _, err := Ping(t.Context(), f.cfg); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, want %s", name, err, f.want)
		}
	}

	// A node starts without Redis, and its log names the setting.
	lines := make(logLines, 1000)
	node(t, mutual.URL, func(c *Config, d *Deps) {
		*c, d.Log = with(mutual.URL, other, own), slog.New(slog.NewTextHandler(lines, nil))
	})
	is.Has(t, <-lines, "RELAY_REDIS_CA_FILE")
}

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default: // the test waits for an earlier line
	}
	return len(line), nil
}

// Files that cannot be used, or that have no use, are faults of the configuration.
func TestCertificatesOfRedisAreValidated(t *testing.T) {
	ca := kit.NewCA(t)
	own, foreign := ca.Issue(t, "relay", time.Now()), ca.Issue(t, "other", time.Now()).KeyFile
	for name, f := range map[string]struct {
		url, ca, cert, key string
		want               string // "" = valid
	}{
		"all":                  {"rediss://host", ca.File, own.CertFile, own.KeyFile, ""},
		"the CA alone":         {"rediss://host", ca.File, "", "", ""},
		"the client alone":     {"rediss://host", "", own.CertFile, own.KeyFile, ""},
		"no CA file":           {"rediss://host", "/none/ca.pem", "", "", "CA file"},
		"a CA file of a key":   {"rediss://host", own.KeyFile, "", "", "CA file"},
		"no key":               {"rediss://host", "", own.CertFile, "", "client certificate"},
		"no certificate":       {"rediss://host", "", "", own.KeyFile, "client certificate"},
		"a key of another":     {"rediss://host", "", own.CertFile, foreign, "client certificate"},
		"no TLS":               {"redis://host", ca.File, "", "", "rediss://"},
		"a socket":             {"unix:///run/redis.sock", "", own.CertFile, own.KeyFile, "rediss://"},
		"no Redis":             {"", "", own.CertFile, own.KeyFile, "rediss://"},
		"no Redis, no problem": {"", "", "", "", ""},
	} {
		cfg := DefaultConfig()
		cfg.URL, cfg.CAFile, cfg.CertFile, cfg.KeyFile = f.url, f.ca, f.cert, f.key
		err := cfg.Validate()
		if (err == nil) != (f.want == "") || err != nil && !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, want %q", name, err, f.want)
		}
	}
}
