package limit

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

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
	l.Claim(ctx, "k", event, "")
	l.Release(ctx, "k", event)
	l.Claim(ctx, "k", event, "")
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
