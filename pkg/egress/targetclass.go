package egress

import "net/netip"

// TargetClass is the class of an address, or the reason why a target is blocked. Errors, logs, metrics and tests
// contain this word.
type TargetClass string

// Classes that may be reached.
const (
	Public  TargetClass = "public"  // global unicast, and not in a special-purpose registry
	Allowed TargetClass = "allowed" // inside Policy.Allow and outside Policy.Deny, whatever else it is
)

// Classes of addresses that are blocked.
const (
	Invalid             TargetClass = "invalid"
	Unspecified         TargetClass = "unspecified"
	Loopback            TargetClass = "loopback"
	Private             TargetClass = "private"
	LinkLocal           TargetClass = "link_local"
	SiteLocal           TargetClass = "site_local"
	CGNAT               TargetClass = "cgnat"
	ProtocolAssignments TargetClass = "protocol_assignments"
	Benchmarking        TargetClass = "benchmarking"
	Documentation       TargetClass = "documentation"
	Multicast           TargetClass = "multicast"
	Reserved            TargetClass = "reserved"
	Broadcast           TargetClass = "broadcast"
	CloudMetadata       TargetClass = "cloud_metadata"
	IPv4Mapped          TargetClass = "ipv4_mapped"
	IPv4Compatible      TargetClass = "ipv4_compatible"
	IPv4Translated      TargetClass = "ipv4_translated"
	NAT64               TargetClass = "nat64"
	SixToFour           TargetClass = "6to4"
	Teredo              TargetClass = "teredo"
	ORCHID              TargetClass = "orchid"
	Discard             TargetClass = "discard"
	SegmentRouting      TargetClass = "segment_routing"
	UniqueLocal         TargetClass = "unique_local"
	OwnAddress          TargetClass = "own_address"
	Denied              TargetClass = "denied" // inside Policy.Deny
)

// Targets that are blocked although their address is public, or before it is known.
const (
	Port      TargetClass = "port"       // a port that is allowed inside Policy.Allow only
	NotAName  TargetClass = "not_a_name" // an address literal or a one-label name outside Policy.Allow
	PlainHTTP TargetClass = "plain_http" // http without Policy.AllowHTTP
	OwnURL    TargetClass = "own_url"    // a URL of the relay itself; see OwnURLs
)

// Advice for the user of a relay on how events come to their own machine or network, which it does not send to.
const (
	localAdvice = "; run relay-forward.mjs (under /tools), or set RELAY_EGRESS_ALLOW=127.0.0.0/8 " +
		"and RELAY_EGRESS_ALLOW_HTTP=true"
	networkAdvice = "; run relay-forward.mjs (under /tools), or set RELAY_EGRESS_ALLOW=ADDRESS/32 " +
		"and RELAY_EGRESS_ALLOW_HTTP=true"
)

// httpAdvice is for a local host that RELAY_EGRESS_ALLOW has already.
const httpAdvice = ", or set RELAY_EGRESS_ALLOW_HTTP=true: RELAY_EGRESS_ALLOW has this host already"

// advice is that for addresses of machines and networks of one's own, else empty.
func (v TargetClass) advice() string {
	switch v {
	case Loopback:
		return localAdvice
	case Private, CGNAT, UniqueLocal:
		return networkAdvice
	}
	return ""
}

// Blocked reports whether connections to this class are blocked. An unknown class is blocked.
func (v TargetClass) Blocked() bool { return v != Public && v != Allowed }

// specialPrefixes lists the blocks of the IANA special-purpose registries (RFC 6890 and its updates) that are not
// globally reachable, the blocks whose addresses embed an IPv4 address, and the rest of the IPv6 space. The first match
// decides, so a narrow block precedes the block that contains it. Read only.
//
// An IPv6 address that embeds an IPv4 address is blocked whatever the IPv4 address is, because the relay cannot know
// where a translator or tunnel sends it. An operator who reaches IPv4 only through NAT64 adds 64:ff9b::/96 to
// RELAY_EGRESS_ALLOW and filters at the translator.
var specialPrefixes = []struct {
	prefix netip.Prefix
	class  TargetClass
}{
	// 0.0.0.0/8 is "this network" (RFC 791, 3.2); Linux takes 0.0.0.0 for the machine itself.
	{netip.MustParsePrefix("0.0.0.0/8"), Unspecified},
	{netip.MustParsePrefix("10.0.0.0/8"), Private},             // RFC 1918
	{netip.MustParsePrefix("100.64.0.0/10"), CGNAT},            // RFC 6598; 100.100.100.200 is Alibaba's metadata
	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},           // RFC 1122, 3.2.1.3
	{netip.MustParsePrefix("168.63.129.16/32"), CloudMetadata}, // Azure's platform address, public by form only
	// RFC 3927; 169.254.169.254 is the metadata of most clouds
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},            // RFC 1918
	{netip.MustParsePrefix("192.0.0.0/24"), ProtocolAssignments}, // RFC 6890, 2.1; 192.0.0.192 is Oracle's metadata
	{netip.MustParsePrefix("192.0.2.0/24"), Documentation},       // RFC 5737, TEST-NET-1
	{netip.MustParsePrefix("192.88.99.0/24"), SixToFour},         // RFC 3068 relay anycast, deprecated by RFC 7526
	{netip.MustParsePrefix("192.168.0.0/16"), Private},           // RFC 1918
	{netip.MustParsePrefix("198.18.0.0/15"), Benchmarking},       // RFC 2544
	{netip.MustParsePrefix("198.51.100.0/24"), Documentation},    // RFC 5737, TEST-NET-2
	{netip.MustParsePrefix("203.0.113.0/24"), Documentation},     // RFC 5737, TEST-NET-3
	{netip.MustParsePrefix("224.0.0.0/4"), Multicast},            // RFC 1112, RFC 5771
	{netip.MustParsePrefix("255.255.255.255/32"), Broadcast},     // RFC 919
	{netip.MustParsePrefix("240.0.0.0/4"), Reserved},             // RFC 1112, 4

	{netip.MustParsePrefix("::/128"), Unspecified},             // RFC 4291, 2.5.2
	{netip.MustParsePrefix("::1/128"), Loopback},               // RFC 4291, 2.5.3
	{netip.MustParsePrefix("::ffff:0:0/96"), IPv4Mapped},       // RFC 4291, 2.5.5.2
	{netip.MustParsePrefix("::/96"), IPv4Compatible},           // RFC 4291, 2.5.5.1, deprecated
	{netip.MustParsePrefix("::ffff:0:0:0/96"), IPv4Translated}, // RFC 2765, 2.1
	{netip.MustParsePrefix("64:ff9b::/96"), NAT64},             // RFC 6052, 2.1
	{netip.MustParsePrefix("64:ff9b:1::/48"), NAT64},           // RFC 8215
	{netip.MustParsePrefix("100::/64"), Discard},               // RFC 6666
	{netip.MustParsePrefix("100:0:0:1::/64"), Discard},         // RFC 9780, dummy prefix
	{netip.MustParsePrefix("2001::/32"), Teredo},               // RFC 4380
	{netip.MustParsePrefix("2001:2::/48"), Benchmarking},       // RFC 5180
	{netip.MustParsePrefix("2001:10::/28"), ORCHID},            // RFC 4843, deprecated
	{netip.MustParsePrefix("2001:20::/28"), ORCHID},            // RFC 7343
	{netip.MustParsePrefix("2001::/23"), ProtocolAssignments},  // RFC 2928
	{netip.MustParsePrefix("2001:db8::/32"), Documentation},    // RFC 3849
	{netip.MustParsePrefix("2002::/16"), SixToFour},            // RFC 3056
	{netip.MustParsePrefix("3fff::/20"), Documentation},        // RFC 9637
	{netip.MustParsePrefix("5f00::/16"), SegmentRouting},       // RFC 9602
	{netip.MustParsePrefix("fc00::/7"), UniqueLocal},           // RFC 4193; fd00:ec2::254 is Amazon's metadata
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},            // RFC 4291, 2.5.6
	{netip.MustParsePrefix("fec0::/10"), SiteLocal},            // RFC 3879, deprecated
	{netip.MustParsePrefix("ff00::/8"), Multicast},             // RFC 4291, 2.7
	{netip.MustParsePrefix("2000::/3"), Public},                // RFC 4291, 2.4: the only global unicast assigned so far
	{netip.MustParsePrefix("::/0"), Reserved},                  // unassigned
}

// ClassifyAddr returns the class of an address by specialPrefixes alone, which is the same for every installation.
// [Policy.ClassifyAddr] adds an installation's allowed and own addresses.
func ClassifyAddr(addr netip.Addr) TargetClass {
	if !addr.IsValid() {
		return Invalid
	}
	addr = addr.WithZone("") // a prefix never contains an address with a zone
	for _, s := range specialPrefixes {
		if s.prefix.Contains(addr) {
			return s.class
		}
	}
	return Public // only IPv4 addresses: ::/0 matches every IPv6 address
}
