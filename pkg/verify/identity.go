package verify

import (
	"slices"
	"strings"
)

// identityHeaders are received headers that are never forwarded. Receivers and their proxies trust the relay's address,
// so with these headers a stranger could choose the method, path, user, client address or proxy that they see. No
// signature of a provider covers them: a captured request can be posted again with other headers.
var identityHeaders = map[string]bool{
	"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Rewrite-Url": true, "X-Host": true, "X-Forwarded": true,
	"Remote-User": true, "X-Remote-User": true, "X-Webauth-User": true, "X-Client-Cert": true,
	"True-Client-Ip": true, "Cf-Connecting-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true,
	"X-Originating-Ip": true, "Fastly-Client-Ip": true, "Client-Ip": true, "X-Ms-Client-Principal": true,
	"Remote-Groups": true, "Remote-Email": true, "Remote-Name": true, "X-Authenticated-User": true, "X-Userinfo": true,
	"X-Jwt-Assertion": true, "X-Client-Verify": true, "X-Cloudscheduler": true,
	"Proxy":                   true, // CGI reads it as HTTP_PROXY
	"X-Middleware-Subrequest": true, // Next.js skips its checks
}

// identityPrefixes begin the names of headers by which an authenticating proxy or a platform names the user or the
// client.
var identityPrefixes = []string{
	"X-Authentik-", "X-Vouch-", "X-Pomerium-", "X-Consumer-", "X-Envoy-", "X-Appengine-", "X-Endpoint-Api-", "X-Ssl-",
	"X-Aws-Sqsd-", "X-Auth-Request-", "X-Amzn-Oidc-", "X-Goog-Authenticated-User-", "Cf-Access-", "Tailscale-User-",
	"X-Ms-Client-Principal-", "Wl-Proxy-Client-",
}

// Identifies reports whether a receiver may take a header, which has its canonical name, for that of a proxy or
// platform that names the user, the client or the request.
func Identifies(name string) bool {
	return identityHeaders[name] ||
		slices.ContainsFunc(identityPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
