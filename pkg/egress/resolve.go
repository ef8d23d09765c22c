package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// lookupWarningTimeout bounds what resolving adds to the answer that saves a destination.
const lookupWarningTimeout = 500 * time.Millisecond

// NewResolver returns a resolver that asks the given DNS server, an address with or without a port
// (53), or for the empty string the system's resolver. A configured server is reached directly: it is
// the operator's word, not a customer's.
func NewResolver(server string) (*net.Resolver, error) {
	if server == "" {
		return net.DefaultResolver, nil
	}
	target, err := netip.ParseAddrPort(server)
	if err != nil {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return nil, fmt.Errorf("read DNS server %q: want an address or address:port", server)
		}
		target = netip.AddrPortFrom(addr, 53)
	}
	var d net.Dialer
	return &net.Resolver{
		PreferGo: true, // the C library's resolver would not ask our server
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return d.DialContext(ctx, network, target.String())
		},
	}, nil
}

// LookupWarning resolves the host of a URL that CheckURL accepted and returns one sentence when
// addresses of it are blocked now, else the empty string. It is advice for the answer that saves a
// destination: no answer within half a second, or none at all, is no warning, because a name may get
// its address later and it is the dial that decides.
func (p Policy) LookupWarning(ctx context.Context, resolver *net.Resolver, host string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupWarningTimeout)
	defer cancel()
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return ""
	}
	blocked := 0
	var first Verdict
	for _, addr := range addrs {
		if v := p.Judge(addr.Unmap()); v.Blocked() {
			if blocked == 0 {
				first = v
			}
			blocked++
		}
	}
	switch blocked {
	case 0:
		return ""
	case len(addrs):
		return fmt.Sprintf("%s resolves to an address that is not public (%s); deliveries to it will fail", host, first)
	default:
		return fmt.Sprintf("%d of the %d addresses of %s are not public (%s); they will not be used", blocked, len(addrs), host, first)
	}
}
