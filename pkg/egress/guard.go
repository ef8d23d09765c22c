package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// AddressBlockedError is the refusal of a connection. Its text is shown to the customer, so it names
// the verdict and not the address: a resolver of ours may know names that are nobody else's business.
type AddressBlockedError struct {
	Class TargetClass
	Addr  netip.Addr // the resolved address, for the operator's log; invalid when none was judged
}

func (e *AddressBlockedError) Error() string {
	switch e.Class {
	case PlainHTTP:
		return "destination blocked: http is not allowed, only https"
	case OwnURL:
		return "destination blocked: it leads back to this relay, where each event would become another one"
	case Port:
		return "destination blocked: a public address is reached at port 443 or 1024 to 65535 only"
	case NotAName:
		return "destination blocked: a public host must be given by its full name"
	}
	return "destination blocked: it leads to an address that is not public (" + string(e.Class) + ")"
}

// guard makes connections, each to an address that the policy has judged.
type guard struct {
	policy      Policy
	dottedNames net.Dialer // for dotted names
	allowedOnly net.Dialer // for literals and one-label names, which are taken inside Policy.Allow only
}

func newGuard(policy Policy, resolver *net.Resolver) *guard {
	g := &guard{policy: policy}
	g.dottedNames = g.dialer(resolver, true)
	g.allowedOnly = g.dialer(resolver, false)
	return g
}

func (g *guard) dialer(resolver *net.Resolver, name bool) net.Dialer {
	return net.Dialer{
		Timeout:  connectTimeout,
		Resolver: resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return g.checkCandidate(address, name)
		},
	}
}

// judge decides about one candidate, after its socket was made and before it connects. The address
// is the one the kernel is about to be given, so there is no time between the judgement and its use.
func (g *guard) checkCandidate(address string, name bool) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressBlockedError{Class: Invalid}
	}
	if v := g.policy.classifyTarget(target, name); v.Blocked() {
		return &AddressBlockedError{Class: v, Addr: target.Addr()}
	}
	return nil
}

// dial is the Transport's DialContext. Of a name with several addresses those that are blocked count
// as unreachable and the next is tried.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &g.allowedOnly
	if isDottedName(address) {
		d = &g.dottedNames
	}
	conn, err := d.DialContext(ctx, network, address)
	var blocked *AddressBlockedError
	if errors.As(err, &blocked) {
		return nil, blocked // without net.OpError, whose text has the address
	}
	return conn, err
}

// isDottedName reports whether the host of host:port has the form that CheckURL takes outside Allow. A
// URL that came past CheckURL is held to it too.
func isDottedName(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || strings.Contains(host, ":") {
		return false
	}
	labels := strings.Split(host, ".")
	return len(labels) > 1 && !isNumber(labels[len(labels)-1])
}
