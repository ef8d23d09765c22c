package limit

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// engines are the embedded Redis and a real one; suites run on both.
var engines = map[string]func(testing.TB) string{
	"embedded": func(t testing.TB) string { return "redis://" + embedded(t) },
	"redis":    func(t testing.TB) string { return "redis://" + kit.Redis(t).Addr },
}

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, test func(t *testing.T, url string)) {
	for name, start := range engines {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// embedded runs an embedded Redis for the length of a test and returns its address.
func embedded(t testing.TB) string {
	t.Helper()
	s := must.Get(redis.New(redis.Config{Listen: "127.0.0.1:0"}, redis.Deps{}))(t)
	background(t, "embedded redis", s.Run)
	<-s.Ready()
	return s.Addr()
}

// background runs a component until the test ends.
func background(t testing.TB, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		is.OK(t, run(ctx), "%s ended with", name)
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// longTimeout is for tests that do not test time-outs: a loaded machine may pause for longer than 50 ms.
const longTimeout = 10 * time.Second

// node starts a limiter for the length of the test; setup may change it before.
func node(t testing.TB, url string, setup ...func(*Config, *Deps)) *Limiter {
	t.Helper()
	cfg, deps := DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}
	cfg.URL, cfg.Timeout = url, longTimeout
	for _, f := range setup {
		f(&cfg, &deps)
	}
	l := must.Get(New(cfg, deps))(t)
	background(t, "limiter", l.Run)
	return l
}
