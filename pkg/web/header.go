package web

import "strings"

// ReservedHeader says why nobody can set that header of a delivery, "" if somebody can.
func ReservedHeader(canonical string) string {
	lower := strings.ToLower(canonical)
	// CGI-style receivers read Relay_Hops, and some of them Relay.Hops, as relay-hops.
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, lower)
	switch {
	case strings.HasPrefix(plain, "webhook-"), strings.HasPrefix(plain, "relay-"):
		return "is set by the service on every delivery"
	case lower == "host", lower == "content-length", lower == "transfer-encoding", lower == "connection",
		lower == "expect",
		lower == "keep-alive", lower == "proxy-connection", lower == "te", lower == "trailer", lower == "upgrade":
		return "belongs to the HTTP transport and cannot be set"
	}
	return ""
}
