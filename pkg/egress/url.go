package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// maxURL is the longest destination URL in bytes, before and after the host is put into ASCII.
const maxURL = 2048

// URLError is every refusal of [Policy.CheckURL]: a sentence for the person who saves the
// destination. It begins with the word URL and says what to do instead; the caller adds the parameter.
type URLError struct {
	Reason string
}

func (e *URLError) Error() string { return e.Reason }

func urlError(format string, args ...any) error {
	return &URLError{Reason: "URL " + fmt.Sprintf(format, args...)}
}

// CheckURL judges a URL at the moment it is saved, by its text alone: nothing is resolved, because the
// answer could be another one at the time of the delivery. What it lets pass is judged again when the
// connection is made, and that judgement is the one that protects.
//
// The URL that comes back is the one to store and to dial: the host in lower-case ASCII, the port
// without leading zeros, the rest as written but for characters that must be percent-encoded.
func (p Policy) CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, urlError("is longer than %d bytes; shorten it", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's text repeats the URL, which may hold a token.
		return nil, urlError("cannot be read; write it as https://host/path, with special characters percent-encoded")
	}
	if p.OwnURLs.Matches(u) { // first: that the URL of the relay in dev is http:// is not what is wrong with it
		return nil, urlError("leads back to this relay, where each event would become another one; name the receiver itself")
	}
	if err := p.checkParts(u, raw); err != nil {
		return nil, err
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := portOf(u)
	if err != nil {
		return nil, err
	}
	if err := p.checkTarget(host, port); err != nil {
		return nil, err
	}
	u.Host = joinHost(host, u.Port(), port)
	u.RawQuery = escapeQuery(u.RawQuery)
	if len(u.String()) > maxURL {
		return nil, urlError("is longer than %d bytes; shorten it", maxURL)
	}
	return u, nil
}

// checkParts judges everything but the host and the port.
func (p Policy) checkParts(u *url.URL, raw string) error {
	switch {
	case u.Scheme == "http" && !p.AllowHTTP:
		return urlError("must use https; change http:// to https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return urlError("must begin with https://")
	case u.Opaque != "" || u.Hostname() == "":
		return urlError("has no host; write it as https://host/path")
	case u.User != nil:
		return urlError("must not contain a user name or password; put credentials into the destination's headers")
	case strings.Contains(raw, "#"):
		return urlError("must not contain a fragment; remove # and what follows it")
	}
	return nil
}

// checkTarget judges the host, in ASCII, and the port. Literals and one-label names may carry any
// port, because they are only taken inside Allow; a dotted name is held to the public rule, because
// whether it leads inside cannot be known without resolving it.
func (p Policy) checkTarget(host string, port uint16) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if v := p.ClassifyAddr(addr); v == Allowed {
			return nil
		} else if v.Blocked() {
			return urlError("names an address that is not public (%s); use the name of a public host", v)
		}
		return urlError("must name its host; an address is not accepted")
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case isNumber(last):
		return urlError("has a host that reads as a number; use the name of a public host")
	case last == "localhost" && !p.allowsLoopback():
		return urlError("names this machine; use the name of a public host")
	case last == "localhost":
		return nil
	case len(labels) == 1 && len(p.Allow) == 0:
		return urlError("has a host without a dot; use the full name of a public host")
	case len(labels) > 1 && !p.allowsPort(port):
		return urlError("has port %d; use 443 or a port from %d to 65535", port, firstUserPort)
	}
	return nil
}

// allowsLoopback reports whether localhost (RFC 6761, 6.3: the name and everything under it) leads
// inside Allow.
func (p Policy) allowsLoopback() bool {
	return p.ClassifyAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) == Allowed ||
		p.ClassifyAddr(netip.IPv6Loopback()) == Allowed
}

// asciiHost returns the host as it is resolved: a literal without its brackets, or a name in
// lower-case ASCII (RFC 5891). net/http does this conversion too, but by one profile for the address
// it dials and by another for the Host header; done once, here, both see the same name and so does the
// judgement: full-width digits and dots (１２７。0。0。1) are an address only after it.
func asciiHost(host string) (string, error) {
	if strings.Contains(host, ":") { // only in brackets: the parser has split off the port
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return "", urlError("has a host in brackets that is not an IPv6 address")
		}
		if addr.Zone() != "" {
			return "", urlError("has an address with a zone; use the name of a public host")
		}
		return addr.String(), nil
	}
	host = strings.ToLower(host)
	if !isASCII(host) || strings.Contains(host, "xn--") {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", urlError("has a host that is not a valid international name; write it in its ASCII form (xn--…)")
		}
		host = ascii
	}
	if err := checkName(host); err != nil {
		return "", err
	}
	return host, nil
}

// checkName judges the form of a name in ASCII: RFC 1123, 2.1, and the underscore, which is common in
// host names although no standard has it. A dot at the end would be legal; it is refused because the
// same host then has two spellings, of which certificates know one.
func checkName(host string) error {
	if strings.HasSuffix(host, ".") {
		return urlError("has a dot at the end of its host; remove it")
	}
	if len(host) > 253 {
		return urlError("has a host longer than 253 characters")
	}
	for label := range strings.SplitSeq(host, ".") {
		bad := strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
		if bad || label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return urlError("has a host that is not a valid name; use letters, digits and hyphens between single dots")
		}
	}
	return nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// isNumber reports whether a last label makes the host an IPv4 address in the eyes of a resolver that
// still reads inet_aton's forms (2130706433, 0x7f.1, 0177.0.0.1), by the rule of the WHATWG URL
// standard ("ends in a number").
func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// portOf returns the port that is dialled.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		if u.Scheme == "http" {
			return 80, nil
		}
		return 443, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, urlError("has a port that does not exist; use 443 or a port from %d to 65535", firstUserPort)
	}
	return uint16(port), nil
}

// escapeQuery percent-encodes what cannot stand in a request line and what the URL standard encodes in
// a query. net/url keeps a query as it was written, spaces included; escapes that are there stay.
func escapeQuery(query string) string {
	bad := func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' }
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; bad(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// joinHost is the host of the stored URL. A port that was not written stays away.
func joinHost(host, written string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if written == "" {
		return host
	}
	return host + ":" + strconv.Itoa(int(port))
}
