package egress

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// ownOf returns an OwnAddrs with fixed addresses.
func ownOf(texts ...string) *OwnAddrs {
	addrs := make(map[netip.Addr]bool)
	for _, text := range texts {
		addrs[netip.MustParseAddr(text)] = true
	}
	o := &OwnAddrs{}
	o.addrs.Store(&addrs)
	return o
}

func TestInterfaceAddrsAreOwn(t *testing.T) {
	own := must.Get(NewOwnAddrs(t.Context(), slog.New(slog.DiscardHandler), func(context.Context) []string {
		return []string{"8.8.4.4"}
	}))(t)
	if !own.contains(netip.MustParseAddr("127.0.0.1")) || !own.contains(netip.MustParseAddr("8.8.4.4")) ||
		own.contains(netip.MustParseAddr("8.8.8.8")) {
		t.Errorf("own addresses: %v", *own.addrs.Load())
	}
}

// The addresses of the engines are blocked, new ones after at most a minute. If the resolver does not answer, the last
// known addresses stay blocked.
func TestEngineAddrsAreOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Pointer[string]
		own := &OwnAddrs{
			log: slog.New(slog.DiscardHandler), lastResolved: map[string][]netip.Addr{},
			engineHosts: func(context.Context) []string { return []string{"kafka.example", "8.8.4.4"} },
			lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
				text := answer.Load()
				switch {
				case host == "8.8.4.4":
					return []netip.Addr{netip.MustParseAddr(host)}, nil
				case text == nil:
					return nil, errors.New("no answer")
				}
				return []netip.Addr{netip.MustParseAddr(*text)}, nil
			},
		}
		policy := Policy{OwnAddrs: own}
		at := func(text string) { answer.Store(&text) }
		blocked := func(addr string, want bool) {
			t.Helper()
			if v := policy.ClassifyAddr(netip.MustParseAddr(addr)); (v == OwnAddress) != want {
				t.Errorf("%s is %s", addr, v)
			}
		}
		blocked("93.184.215.14", false)
		at("::ffff:93.184.215.14")
		must.Do(t, own.refresh(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- own.Run(ctx) }()
		blocked("93.184.215.14", true)
		blocked("8.8.4.4", true)
		at("93.184.215.15")
		time.Sleep(ownAddrsInterval + time.Second)
		blocked("93.184.215.15", true)
		blocked("93.184.215.14", false)
		answer.Store(nil)
		time.Sleep(ownAddrsInterval)
		blocked("93.184.215.15", true)
		cancel()
		is.ErrorIs(t, <-ended, context.Canceled)
	})
}
