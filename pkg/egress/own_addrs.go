package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// How the addresses of an installation are followed.
const (
	ownAddrsInterval = time.Minute
	ownAddrsTimeout  = 5 * time.Second // for all names together
)

// Own are the addresses of this installation: of the machine's interfaces and of the engines that it stands on. A
// destination cannot lead to them by a public address. They are looked up each minute, for interfaces come and go and
// names move. An engine's name without an answer keeps the addresses that it had. Nil is none.
type OwnAddrs struct {
	log          *slog.Logger
	engineHosts  func(context.Context) []string // their hosts
	lookup       func(ctx context.Context, network, host string) ([]netip.Addr, error)
	addrs        atomic.Pointer[map[netip.Addr]bool]
	lastResolved map[string][]netip.Addr // by host of an engine; only the one that refreshes uses it
}

// NewOwnAddrs looks all addresses up once. Of the interfaces they must be known; a name that does not resolve now is
// looked up again.
func NewOwnAddrs(ctx context.Context, log *slog.Logger, engines func(context.Context) []string) (*OwnAddrs, error) {
	o := &OwnAddrs{log: log, engineHosts: engines, lookup: net.DefaultResolver.LookupNetIP,
		lastResolved: map[string][]netip.Addr{}}
	return o, o.refresh(ctx)
}

// Run looks the addresses up again each minute.
func (o *OwnAddrs) Run(ctx context.Context) error {
	tick := time.NewTicker(ownAddrsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := o.refresh(ctx); err != nil {
				o.log.LogAttrs(ctx, slog.LevelWarn, "cannot list the addresses of this machine, the last ones stand",
					slog.Any("error", err))
			}
		}
	}
}

// refresh is called by one goroutine at a time.
func (o *OwnAddrs) refresh(ctx context.Context) error {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine: %w", err)
	}
	addrs := make(map[netip.Addr]bool)
	for _, a := range interfaces {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs[prefix.Addr().Unmap()] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, ownAddrsTimeout)
	defer cancel()
	known := make(map[string][]netip.Addr)
	for _, host := range o.engineHosts(ctx) {
		found, err := o.lookup(ctx, "ip", host)
		if err != nil {
			found = o.lastResolved[host]
			o.log.LogAttrs(ctx, slog.LevelWarn, "cannot resolve the host of an engine, destinations may lead to it",
				slog.String("host", host), slog.Int("addresses_known", len(found)), slog.Any("error", err))
		}
		known[host] = found
		for _, a := range found {
			addrs[a.Unmap().WithZone("")] = true
		}
	}
	o.lastResolved = known
	o.addrs.Store(&addrs)
	return nil
}

// has reports whether the address is one of them.
func (o *OwnAddrs) contains(addr netip.Addr) bool {
	if o == nil {
		return false
	}
	addrs := o.addrs.Load()
	return addrs != nil && (*addrs)[addr.Unmap()]
}
