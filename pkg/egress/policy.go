package egress

import (
	"net/netip"
	"slices"
)

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
