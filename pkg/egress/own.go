package egress

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// OwnURLs recognises URLs of this relay. A destination with such a URL would turn each event into a new one, in a loop.
// Loops through other names and proxies are not recognised here; the header relay-hops, which counts deliveries, ends
// them.
type OwnURLs struct {
	scheme string
	port   uint16
	hosts  map[string]bool
	base   string // path of the base URL
}

// ownPaths are the paths whose handlers create events or deliver them again. Those of the API need a key, which a
// destination can send in a configured header.
var ownPaths = []string{"/in", "/drain", "/api", "/v1", "/mcp"}

// NewOwnURLs returns the URLs of a relay with this base URL and these other host names; nil if the base URL is invalid.
func NewOwnURLs(baseURL string, names []string) *OwnURLs {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil
	}
	port, err := portOf(u)
	if err != nil {
		return nil
	}
	s := &OwnURLs{scheme: u.Scheme, port: port, hosts: make(map[string]bool), base: strings.TrimRight(u.Path, "/")}
	for _, name := range append([]string{u.Hostname()}, names...) {
		if host, err := asciiHost(strings.TrimSuffix(name, ".")); err == nil {
			s.hosts[host] = true
		}
	}
	for host := range s.hosts {
		if IsLoopback(host) { // loopback has several names
			s.hosts["localhost"], s.hosts["127.0.0.1"], s.hosts["::1"] = true, true, true
			break
		}
	}
	return s
}

// IsLoopback reports whether a host, a name or an address, is this machine, which a connection to it does not leave.
func IsLoopback(host string) bool {
	addr, _ := netip.ParseAddr(host) // of a name: the zero Addr, which is not loopback
	return host == "localhost" || addr.Unmap().IsLoopback()
}

// Matches reports whether the relay itself would handle a request to u as one of ownPaths.
func (s *OwnURLs) Matches(u *url.URL) bool {
	if s == nil || u == nil || u.Scheme != s.scheme {
		return false
	}
	port, err := portOf(u)
	if err != nil || port != s.port {
		return false
	}
	host, err := asciiHost(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil || !s.hosts[host] {
		return false
	}
	// A proxy may normalise the path before the relay sees it.
	relative, below := strings.CutPrefix(path.Clean("/"+u.Path), s.base)
	for _, own := range ownPaths {
		if below && (relative == own || strings.HasPrefix(relative, own+"/")) {
			return true
		}
	}
	return false
}

// How often the addresses of an installation are refreshed, and how long a refresh may take.
const (
	ownAddrsInterval = time.Minute
	ownAddrsTimeout  = 5 * time.Second // for all DNS lookups together
)

// OwnAddrs holds the addresses of this installation: of the machine's interfaces and of the engines (Kafka, ClickHouse,
// Redis). Destinations must not reach them even if they are public. They are refreshed each minute, because interfaces
// and DNS names change. If an engine's name does not resolve, its last known addresses stay. A nil *OwnAddrs contains
// no address.
type OwnAddrs struct {
	log          *slog.Logger
	engineHosts  func(context.Context) []string
	lookup       func(ctx context.Context, network, host string) ([]netip.Addr, error)
	addrs        atomic.Pointer[map[netip.Addr]bool]
	lastResolved map[string][]netip.Addr // by host of an engine; used by refresh only
}

// NewOwnAddrs lists all addresses once. It fails if the interfaces cannot be listed; a name that does not resolve is
// tried again by Run.
func NewOwnAddrs(ctx context.Context, log *slog.Logger, engines func(context.Context) []string) (*OwnAddrs, error) {
	o := &OwnAddrs{log: log, engineHosts: engines, lookup: net.DefaultResolver.LookupNetIP,
		lastResolved: map[string][]netip.Addr{}}
	return o, o.refresh(ctx)
}

// Run refreshes the addresses each minute until ctx ends.
func (o *OwnAddrs) Run(ctx context.Context) error {
	tick := time.NewTicker(ownAddrsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := o.refresh(ctx); err != nil {
				o.log.LogAttrs(ctx, slog.LevelWarn, "cannot list the addresses of this machine; using the last ones",
					slog.Any("error", err))
			}
		}
	}
}

// refresh lists the addresses again. It must not be called concurrently.
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
			o.log.LogAttrs(ctx, slog.LevelWarn, "cannot resolve the host of an engine; destinations may reach it",
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

// contains reports whether addr belongs to this installation.
func (o *OwnAddrs) contains(addr netip.Addr) bool {
	if o == nil {
		return false
	}
	addrs := o.addrs.Load()
	return addrs != nil && (*addrs)[addr.Unmap()]
}
