package doctor

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// baseURL checks the address that clients use.
func (x *checker) baseURL(context.Context) Check {
	if Unencrypted(x.BaseURL) {
		return warn("serve HTTPS (RELAY_TLS_CERT_FILE, or a proxy in front) and set RELAY_BASE_URL to https://…",
			"clients use %s: API keys, ingest tokens and events are sent unencrypted", x.BaseURL)
	}
	return ok("clients use %s", x.BaseURL)
}

// issuer checks that people can sign in by OpenID Connect.
func (x *checker) issuer(ctx context.Context) Check {
	redirectURL, err := x.Issuer(ctx)
	if err != nil {
		return fail("check RELAY_OIDC_ISSUER, and that this machine reaches it; people of the issuer are signed out within "+
			"the hour, local people sign in with their password", "%v", err)
	}
	return ok("the issuer answers; it must know the redirect URL %s", redirectURL)
}

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
