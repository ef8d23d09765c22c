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
// its address later and it is the dial that decides. The sentence is the same for every kind and number of
// blocked addresses: whoever saves destinations shall not learn from it how the network inside is built.
func (p Policy) LookupWarning(ctx context.Context, resolver *net.Resolver, host string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupWarningTimeout)
	defer cancel()
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return ""
	}
	for _, addr := range addrs {
		if p.ClassifyAddr(addr.Unmap()).Blocked() {
			return host + " has an address that is not public; deliveries never go to such a one"
		}
	}
	return ""
}
