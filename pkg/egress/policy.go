package egress

import (
	"net/netip"
	"slices"
)

// Policy is what an installation decides about its outbound requests. The zero Policy is the strict
// one: https to public addresses only. Read only once in use, but for Own, which follows changes.
type Policy struct {
	// Allow holds the networks that may be reached although they are not public
	// (RELAY_EGRESS_ALLOW): tests on loopback, private networks.
	Allow []netip.Prefix
	// Own holds the addresses of this machine and of the engines, so that a destination cannot name our
	// own listeners, or an engine that takes this machine's word, by a public address. Allow goes before it.
	OwnAddrs *OwnAddrs
	// AllowHTTP accepts http and with it port 80 (RELAY_EGRESS_ALLOW_HTTP). For benchmarks on
	// loopback only.
	AllowHTTP bool
	// Self are the URLs of the relay itself, which nothing is delivered to; nil for none.
	OwnURLs *OwnURLs
}

// Judge says what an address is to this installation. The address is taken as it is: a mapped one is
// inside Allow only when Allow names mapped addresses.
func (p Policy) ClassifyAddr(addr netip.Addr) TargetClass {
	addr = addr.WithZone("")
	if slices.ContainsFunc(p.Allow, func(allow netip.Prefix) bool { return allow.Contains(addr) }) {
		return Allowed
	}
	v := ClassifyAddr(addr)
	if v == Public && p.OwnAddrs.contains(addr) {
		return OwnAddress
	}
	return v
}

// classifyTarget is the whole decision about one connection: target is the resolved address, name whether
// the host was a dotted name. Names of one label and literals are for the inside only.
func (p Policy) classifyTarget(target netip.AddrPort, name bool) TargetClass {
	v := p.ClassifyAddr(target.Addr())
	switch {
	case v == Allowed || v.Blocked():
		return v
	case !name:
		return NotAName
	case !p.allowsPort(target.Port()):
		return Port
	}
	return v
}

// Ports below this one belong to system services (RFC 6335, 6): mail, name service, shells. A request
// with a body of the caller's choice must not reach them.
const firstUserPort = 1024

// allowsPort reports whether a public address may be reached at this port.
func (p Policy) allowsPort(port uint16) bool {
	return port == 443 || port >= firstUserPort || p.AllowHTTP && port == 80
}
