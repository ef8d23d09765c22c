package limit

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A failed dial whose caller has given up does not count as a failure once Redis is available again.
func TestStaleDialsDoNotCount(t *testing.T) {
	l := node(t, "redis://127.0.0.1:1")
	kit.WaitFor(t, "the breaker is open", l.breaker.isOpen)
	stale := dialError{text: "of before", at: time.Now().Add(-time.Minute)}
	calls := 0
	err := l.exchange(t.Context(), "probe", func(context.Context) error {
		if calls++; calls < 5 {
			return stale
		}
		return nil
	})
	if err != nil || calls != 5 {
		t.Errorf("%d calls end with %v", calls, err)
	}
}

// A running dial ends with the limiter.
func TestDialEndsWithTheLimiter(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer listener.Close()
	d, cancelDials := newDialer(nil, nil, 0)
	cancelDials()
	conn, err := d.dial(t.Context(), "tcp", listener.Addr().String())
	must.Do(t, err)
	if _, err = conn.Read(nil); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("the dial ended with %v, want that it was cancelled", err)
	}
}

// A dial may take a second, or as long as an exchange if that is longer.
func TestDialIsBounded(t *testing.T) {
	for exchange, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: time.Second, 10 * time.Second: 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			d, cancelDials := newDialer(nil, func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, exchange)
			defer cancelDials()
			began := time.Now()
			if _, err := d.dial(t.Context(), "tcp", "redis:6379"); err != nil || time.Since(began) != want {
				t.Errorf("exchanges of %v: a dial took %v, %v", exchange, time.Since(began), err)
			}
		})
	}
}

func TestDialTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	d, cancelDials := newDialer(server.Client().Transport.(*http.Transport).TLSClientConfig, nil, 0)
	defer cancelDials()
	conn := must.Get(d.dial(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	c, ok := conn.(secureConn)
	if !ok {
		t.Fatalf("it is a %T", conn)
	}
	if c, ok := c.Conn.(*tls.Conn); !ok || !c.ConnectionState().HandshakeComplete {
		t.Errorf("it has a %T", c)
	}
}

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
		if c := l.Claim(t.Context(), "key", newID(t), "", 30*time.Second); c.State != want {
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

// What Redis evicts and forgets is read from a real one; one whose ACL hides it is no fault.
func TestReadSettings(t *testing.T) {
	engine := kit.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr})
	defer client.Close()
	set := func(name, value string) {
		t.Helper()
		must.Do(t, client.ConfigSet(t.Context(), name, value).Err())
	}
	cfg := Config{URL: "redis://" + engine.Addr}
	read := func(want Settings) {
		t.Helper()
		is.Equal(t, must.Get(ReadSettings(t.Context(), cfg))(t), want)
	}
	set("maxmemory-policy", "allkeys-lru")
	set("save", "")
	set("appendonly", "no")
	read(Settings{Eviction: "allkeys-lru", Volatile: true})
	set("maxmemory-policy", "noeviction")
	set("save", "60 1")
	read(Settings{Eviction: "noeviction"})
	set("maxmemory", "100mb")
	if full := must.Get(ReadSettings(t.Context(), cfg))(t).Memory; full <= 0 || full >= 0.5 {
		t.Errorf("an empty Redis uses %v of 100 MB", full)
	}
	must.Do(t, client.Do(t.Context(), "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+ping").Err())
	cfg.URL = "redis://limited:pw@" + engine.Addr
	read(Settings{})
}

// The ACL in docs/operate/security.md allows what the relay does in Redis, and each command that it names is used.
func TestDocumentedACLIsEnoughAndMinimal(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operate/security.md"))(t)
	documented := regexp.MustCompile(`(?m)^ACL SETUSER relay on >PASSWORD resetkeys resetchannels -@all (.*)$`)
	line := documented.FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/operate/security.md has no ACL of Redis")
	}
	rules := strings.Fields(string(line[1]))
	engine := kit.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: engine.Addr})
	defer admin.Close()
	args := []any{"ACL", "SETUSER", "relay", "on", ">pw", "resetkeys", "resetchannels", "-@all"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	must.Do(t, admin.Do(t.Context(), args...).Err())
	must.Do(t, admin.ConfigResetStat(t.Context()).Err())
	useEverything(t, "redis://relay:pw@"+engine.Addr)
	useBus(t, "redis://relay:pw@"+engine.Addr)

	refused := must.Get(admin.ACLLog(t.Context(), 100).Result())(t)
	for _, r := range refused {
		if !strings.HasPrefix(r.Object, "client|") { // the library names itself, and goes on when it may not
			t.Errorf("the ACL refuses %s of %s", r.Object, r.Context)
		}
	}
	stats := must.Get(admin.Info(t.Context(), "commandstats").Result())(t)
	var used []string
	for _, found := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=([1-9])`).FindAllStringSubmatch(stats, -1) {
		used = append(used, found[1])
	}
	for _, rule := range rules {
		if command, ok := strings.CutPrefix(rule, "+"); ok && !slices.Contains(used, command) {
			t.Errorf("the ACL allows %s, which nothing uses: %v", command, used)
		}
	}
}

// useEverything does once what a limiter does in Redis.
func useEverything(t *testing.T, url string) {
	t.Helper()
	l := node(t, url)
	ctx := t.Context()
	kit.WaitFor(t, "Redis gives tokens", func() bool {
		l.TakeSharedToken("read", "key_1", 100)
		l.TakeToken("dst_1", 100, 10)
		return l.HeldUntil(ctx, []string{"dst_1"}) != nil
	})
	window := l.NewWindow("w", time.Minute)
	window.Claim(ctx, "k", 2)
	window.Claim(ctx, "k", 2)
	window.Release(ctx, "k")
	window.Release(ctx, "k")
	window.AddMany(ctx, "k", 5)
	l.NewDistinct("d", time.Minute).Admit(ctx, "k", []string{"a", "b"}, 10)
	l.NewSignIns().Claim(ctx, "a@example.com", netip.MustParseAddr("192.0.2.1"))
	var event id.ID
	l.Claim(ctx, "k", event, "", 30*time.Second)
	l.Release(ctx, "k", event)
	l.Claim(ctx, "k", event, "", 30*time.Second)
	is.OK(t, l.MarkStored(ctx, "k", event, "", time.Minute))
	l.SetHeldUntil("dst_1", time.Now().Add(time.Hour))
	kit.WaitFor(t, "a circuit breaker is shared", func() bool { return len(l.HeldUntil(ctx, []string{"dst_1"})) == 1 })
	l.SetHeldUntil("dst_1", time.Time{})
	kit.WaitFor(t, "a circuit breaker is closed", func() bool { return len(l.HeldUntil(ctx, []string{"dst_1"})) == 0 })
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = url, longTimeout
	if _, err := Ping(ctx, cfg); err != nil {
		t.Error(err)
	}
	if _, err := ReadSettings(ctx, cfg); err != nil {
		t.Error(err)
	}
}
