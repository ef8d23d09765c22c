package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// privateSuffixes are suffixes of host names that do not exist on the public network.
var privateSuffixes = []string{
	"localhost", "local", "internal", "lan", "intranet", "home.arpa", "test", "example", "invalid"}

// Unencrypted reports whether clients would use a base URL over a public network without TLS. Names without a dot,
// names with a private suffix, and loopback, link-local and private addresses count as a private network.
func Unencrypted(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !addr.IsUnspecified()
	}
	inside := slices.ContainsFunc(privateSuffixes, func(end string) bool {
		return host == end || strings.HasSuffix(host, "."+end)
	})
	return strings.Contains(host, ".") && !inside
}
