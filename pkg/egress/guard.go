package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// AddressBlockedError is returned for a connection that the policy blocks. Customers see its text, so it contains the
// class and not the address: the operator's resolver may know internal names.
type AddressBlockedError struct {
	Class TargetClass
	Addr  netip.Addr // the blocked address, for the operator's log; invalid if the URL itself is blocked
}

func (e *AddressBlockedError) Error() string {
	switch e.Class {
	case PlainHTTP:
		return "destination blocked: http is not allowed, only https"
	case OwnURL:
		return "destination blocked: it points to this relay, which would turn each event into a new one"
	case Denied:
		return "destination blocked: its address is in a network that the operator of this relay has denied"
	case Port:
		return "destination blocked: a public address is reached at port 443 or 1024 to 65535 only"
	case NotAName:
		return "destination blocked: a public host must be given by its full name"
	}
	return "destination blocked: its address is not public (" + string(e.Class) + ")" + e.Class.advice()
}

// guard opens connections, only to addresses that the policy allows.
type guard struct {
	policy      Policy
	proxy       *proxy     // nil: connections are direct
	dottedNames net.Dialer // for names with a dot
	allowedOnly net.Dialer // for address literals and one-label names, which are allowed inside Policy.Allow only
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

// checkCandidate checks one candidate address between socket and connect. address is the one that the kernel connects
// to, so DNS cannot change it between check and use.
func (g *guard) checkCandidate(address string, name bool) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressBlockedError{Class: Invalid}
	}
	if class := g.policy.classifyTarget(target, name); class.Blocked() {
		return &AddressBlockedError{Class: class, Addr: target.Addr()}
	}
	return nil
}

// dial connects to host:port. If an address of a name is blocked, the next one is tried; if all fail, the error is that
// of the first.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.proxy != nil {
		return g.dialThrough(ctx, address)
	}
	d := &g.allowedOnly
	if isDottedName(address) {
		d = &g.dottedNames
	}
	conn, err := d.DialContext(ctx, network, address)
	var blocked *AddressBlockedError
	if errors.As(err, &blocked) {
		return nil, blocked // without the net.OpError: its text contains the address
	}
	return conn, err
}

// isDottedName reports whether the host of host:port has the form that CheckURL accepts outside Allow. It is checked
// again here for URLs that CheckURL has not checked.
func isDottedName(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || strings.Contains(host, ":") {
		return false
	}
	labels := strings.Split(host, ".")
	return len(labels) > 1 && !isNumber(labels[len(labels)-1])
}

// Policy decides which targets outbound requests may reach. The zero Policy is the strictest: https to public addresses
// only. Do not change it once it is in use; OwnAddrs refreshes itself.
type Policy struct {
	// Allow holds networks that may be reached although they are not public (RELAY_EGRESS_ALLOW).
	Allow []netip.Prefix
	// Deny holds networks that are blocked although they are public or inside Allow (RELAY_EGRESS_DENY).
	Deny []netip.Prefix
	// OwnAddrs holds the addresses of this machine and of the engines. They are blocked even if they are public: an
	// engine may trust connections from this machine. Allow takes precedence.
	OwnAddrs *OwnAddrs
	// AllowHTTP allows http and port 80 (RELAY_EGRESS_ALLOW_HTTP). For tests and benchmarks on loopback.
	AllowHTTP bool
	// OwnURLs are the URLs of the relay itself, which are blocked; nil for none.
	OwnURLs *OwnURLs
}

// ClassifyAddr returns the class of an address for this installation. It does not unmap IPv4-mapped addresses: they are
// inside Allow only if Allow contains mapped addresses.
func (p Policy) ClassifyAddr(addr netip.Addr) TargetClass {
	addr = addr.WithZone("")
	switch {
	case contains(p.Deny, addr), contains(p.Deny, addr.Unmap()):
		return Denied
	case contains(p.Allow, addr):
		return Allowed
	}
	class := ClassifyAddr(addr)
	if class == Public && p.OwnAddrs.contains(addr) {
		return OwnAddress
	}
	return class
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// classifyTarget decides whether a connection is allowed. target is the resolved address; name tells whether the URL's
// host was a name with a dot. One-label names and address literals are allowed inside Allow only.
func (p Policy) classifyTarget(target netip.AddrPort, name bool) TargetClass {
	class := p.ClassifyAddr(target.Addr())
	switch {
	case class == Allowed || class.Blocked():
		return class
	case !name:
		return NotAName
	case !p.allowsPort(target.Port()):
		return Port
	}
	return class
}

// firstUserPort is the first port that does not belong to system services (RFC 6335, 6) such as mail, DNS and ssh.
// Requests, whose bodies a customer chooses, must not reach those.
const firstUserPort = 1024

// allowsPort reports whether a public address may be reached at this port: 443, any from firstUserPort on, and 80 with
// AllowHTTP.
func (p Policy) allowsPort(port uint16) bool {
	return port == 443 || port >= firstUserPort || p.AllowHTTP && port == 80
}
