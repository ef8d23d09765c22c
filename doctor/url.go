package doctor

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// baseURL looks at how clients are told to come.
func (x *examination) baseURL(context.Context) Check {
	if Unencrypted(x.BaseURL) {
		return warn("serve HTTPS (RELAY_TLS_CERT_FILE, or a proxy before the nodes) and set RELAY_BASE_URL to https://…",
			"clients are told to call %s: API keys, ingest tokens and events travel unencrypted", x.BaseURL)
	}
	return ok("clients are told to call %s", x.BaseURL)
}

// private are the ends of names that lead nowhere on the public network.
var private = []string{"localhost", "local", "internal", "lan", "intranet", "home.arpa", "test", "example", "invalid"}

// Unencrypted reports whether a base URL tells clients to come over a public network without TLS. A name without a dot,
// and an address of a private network, lead to nobody else's.
func Unencrypted(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !addr.IsUnspecified()
	}
	inside := slices.ContainsFunc(private, func(end string) bool {
		return host == end || strings.HasSuffix(host, "."+end)
	})
	return strings.Contains(host, ".") && !inside
}
