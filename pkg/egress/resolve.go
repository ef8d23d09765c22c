package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// lookupWarningTimeout limits how long the lookup may delay the response that saves a destination.
const lookupWarningTimeout = 500 * time.Millisecond

// NewResolver returns a resolver for the given DNS server, an address with or without a port (default 53). Empty for
// the system's resolver. The policy does not apply to the server's address: the operator has configured it.
func NewResolver(server string) (*net.Resolver, error) {
	if server == "" {
		return net.DefaultResolver, nil
	}
	target, err := netip.ParseAddrPort(server)
	if err != nil {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return nil, fmt.Errorf("DNS server %q must be an address or address:port", server)
		}
		target = netip.AddrPortFrom(addr, 53)
	}
	var d net.Dialer
	return &net.Resolver{
		PreferGo: true, // the C library's resolver would ignore the server
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return d.DialContext(ctx, network, target.String())
		},
	}, nil
}

// LookupWarning resolves the host of a URL that CheckURL accepted and returns a sentence if any of its addresses is
// blocked now, otherwise the empty string. It is a warning in the response that saves a destination; deliveries are
// blocked when they connect. A failed lookup, or one longer than half a second, gives no warning, because the name may
// resolve later. The sentence is the same for every class and number of blocked addresses, so it reveals nothing about
// the internal network.
func (p Policy) LookupWarning(ctx context.Context, resolver *net.Resolver, host string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupWarningTimeout)
	defer cancel()
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return ""
	}
	for _, addr := range addrs {
		if p.ClassifyAddr(addr.Unmap()).Blocked() {
			return host + " resolves to an address that is not public; deliveries to such an address are blocked" +
				networkAdvice
		}
	}
	return ""
}
