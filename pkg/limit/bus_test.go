package limit

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A message reaches who listens to its channel, also one that was added later, and nobody after the channel was left.
func TestBus(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) { useBus(t, url) })
}

// useBus does once what a bus does in Redis.
func useBus(t *testing.T, url string) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	b, sender := cfg.NewBus(), cfg.NewBus()
	defer sender.client.Close()
	var channels atomic.Pointer[[]string]
	channels.Store(&[]string{"pull:1"})
	changed, got := make(chan struct{}), make(chan string, 99)
	background(t, "bus", func(ctx context.Context) error {
		b.Listen(ctx, func() []string { return *channels.Load() }, changed, func(channel string, message []byte) {
			got <- channel + " " + string(message)
		})
		return nil
	})
	heard := func(channel, message string, want bool) {
		t.Helper()
		kit.WaitFor(t, "the channel "+channel, func() bool {
			return must.Get(sender.Publish(t.Context(), channel, []byte(message)))(t) == want
		})
	}
	large := strings.Repeat("x", 3<<20)
	heard("pull:1", large, true)
	is.Equal(t, <-got, "pull:1 "+large, "got")
	channels.Store(&[]string{"pull:2"})
	changed <- struct{}{}
	heard("pull:2", "two", true)
	is.Equal(t, <-got, "pull:2 two", "got")
	heard("pull:1", "one", false)
}

func TestNoBusWithoutRedis(t *testing.T) {
	if b := DefaultConfig().NewBus(); b != nil {
		t.Error("there is a bus without Redis")
	}
}
