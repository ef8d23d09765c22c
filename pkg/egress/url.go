package egress

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// maxURL limits a destination URL in bytes, before and after its host is converted to ASCII.
const maxURL = 2048

// URLError is the type of all errors of [Policy.CheckURL]: a sentence for the user that begins with the word URL and
// says what to do instead. The caller adds the parameter.
type URLError struct {
	Reason string
}

func (e *URLError) Error() string { return e.Reason }

func urlError(format string, args ...any) error {
	return &URLError{Reason: "URL " + fmt.Sprintf(format, args...)}
}

// CheckURL validates a URL when it is saved, by its text alone. It does not resolve the host, because DNS may answer
// differently at the time of the delivery. The address is checked when the connection is made; that check is the
// protection.
//
// Store and dial the returned URL: its host is in lower-case ASCII, its port has no leading zeros, and characters that
// must be percent-encoded are encoded.
func (p Policy) CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, urlError("is longer than %d bytes; shorten it", maxURL)
	}
	if strings.ContainsFunc(raw, unicode.IsSpace) { // usually two URLs on one line
		return nil, urlError("contains white space; write one URL, and %%20 for a space in it")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error contains the URL, which may contain a token.
		return nil, urlError("cannot be read; write it as https://host/path, with special characters percent-encoded")
	}
	if p.OwnURLs.Matches(u) { // before the scheme: in dev the relay's URL is http://, but that is not the problem
		return nil, urlError("points to this relay, which would turn each event into a new one; use the receiver's own URL")
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

// StoredURL returns a valid URL as CheckURL returns it, for comparing. Another text is returned as it is.
func StoredURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host, err := asciiHost(u.Hostname())
	port, portErr := portOf(u)
	if err != nil || portErr != nil {
		return raw
	}
	u.Host, u.RawQuery = joinHost(host, u.Port(), port), escapeQuery(u.RawQuery)
	return u.String()
}

// checkParts validates everything but host and port.
func (p Policy) checkParts(u *url.URL, raw string) error {
	switch {
	case u.Scheme == "http" && !p.AllowHTTP:
		return urlError("must use https; change http:// to https://%s", p.hostAdvice(u.Hostname()))
	case u.Scheme != "https" && u.Scheme != "http":
		return urlError("must begin with https://")
	case u.Hostname() == "":
		return urlError("has no host; write it as https://host/path")
	case u.User != nil:
		return urlError("must not contain a user name or password; a destination has headers for credentials")
	case strings.Contains(raw, "#"):
		return urlError("must not contain a fragment; remove # and what follows it")
	}
	return nil
}

// checkTarget validates the ASCII host and the port. Address literals and one-label names may have any port, because
// they are accepted inside Allow only. A name with a dot follows the rules for public hosts, because only DNS knows
// whether it is inside Allow.
func (p Policy) checkTarget(host string, port uint16) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if class := p.ClassifyAddr(addr); class == Allowed {
			return nil
		} else if class == Denied {
			return urlError("names an address in a network that the operator of this relay has denied")
		} else if class.Blocked() {
			return urlError("names an address that is not public (%s); use the name of a public host%s", class, class.advice())
		}
		return urlError("must have a host name; an IP address is not accepted")
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case isNumber(last):
		return urlError("has a host that reads as a number; use the name of a public host")
	case last == "localhost" && !p.allowsLoopback():
		return urlError("names this machine; use the name of a public host%s", localAdvice)
	case last == "localhost":
		return nil
	case len(labels) == 1 && len(p.Allow) == 0:
		return urlError("has a host without a dot; use the full name of a public host")
	case len(labels) > 1 && !p.allowsPort(port):
		return urlError("has port %d; use 443 or a port from %d to 65535", port, firstUserPort)
	}
	return nil
}

// hostAdvice says how a URL with http:// and such a host comes to be accepted, if it names a machine or network of
// one's own; else it is empty.
func (p Policy) hostAdvice(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		if p.ClassifyAddr(addr) == Allowed {
			return httpAdvice
		}
		return ClassifyAddr(addr).advice()
	}
	host = strings.ToLower(host)
	switch local := host == "localhost" || strings.HasSuffix(host, ".localhost"); {
	case local && p.allowsLoopback():
		return httpAdvice
	case local:
		return localAdvice
	}
	return ""
}

// allowsLoopback reports whether localhost (RFC 6761, 6.3: the name and everything under it) is inside Allow.
func (p Policy) allowsLoopback() bool {
	return p.ClassifyAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) == Allowed ||
		p.ClassifyAddr(netip.IPv6Loopback()) == Allowed
}

// asciiHost returns the host as it is resolved: an address literal without brackets, or a name in lower-case ASCII (RFC
// 5891). net/http converts names too, but with different profiles for dialling and for the Host header. Converting here
// makes both use the checked name: full-width digits and dots (１２７。0。0。1) become an address.
func asciiHost(host string) (string, error) {
	if strings.Contains(host, ":") { // an IPv6 literal in brackets: the port is already split off
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

// checkName validates the syntax of an ASCII name: RFC 1123, 2.1, plus the underscore, which is common in host names
// although no standard allows it. A dot at the end is legal but rejected: the host would have two spellings, and
// certificates contain only one.
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

// isNumber reports whether a resolver that accepts inet_aton's forms (2130706433, 0x7f.1, 0177.0.0.1) reads a host with
// this last label as an IPv4 address, by the rule of the WHATWG URL standard ("ends in a number").
func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// portOf returns the port of u, or the default port of its scheme.
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

// escapeQuery percent-encodes the bytes that are not allowed in a request line and those of the query percent-encode
// set (WHATWG URL standard, 1.3). net/url leaves a query unchanged, including spaces. Existing escapes stay.
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

// joinHost returns the host of the stored URL, with the port only if it was written.
func joinHost(host, written string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if written == "" {
		return host
	}
	return host + ":" + strconv.Itoa(int(port))
}

// maxHostname limits a host name in bytes, so that a label of 62 characters fits in front of it.
const maxHostname = 253 - 63

// HostnameError is the type of all errors of [Policy.CheckHostname]: what is wrong with the name and what to do
// instead, as the end of a sentence. The caller adds the parameter.
type HostnameError struct {
	Reason string
}

func (e *HostnameError) Error() string { return e.Reason }

// CheckHostname validates the name of a website that a customer claims, by its text alone, and returns it in lower-case
// ASCII. Public suffixes and the relay's own hosts are refused. Inside Allow it may have a port, and be one label or an
// address; the address is checked when a connection is made.
func (p Policy) CheckHostname(raw string) (string, error) {
	host, port, err := splitHostname(raw)
	if err != nil {
		return "", err
	}
	if port != "" && len(p.Allow) == 0 {
		return "", &HostnameError{"must not have a port; websites are reached at port 443"}
	}
	if err := p.checkWebsite(host); err != nil {
		return "", err
	}
	if p.OwnURLs.hasHost(host, port) {
		return "", &HostnameError{"is a name of this relay, which does not request itself; add a website of your own"}
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return host, nil
}

// splitHostname returns the ASCII host, an address without brackets, and the port, empty if there is none.
func splitHostname(raw string) (host, port string, err error) {
	switch {
	case len(raw) > 4*maxHostname: // before it is converted
		return "", "", tooLongHostname()
	case strings.ContainsAny(raw, "/?#@\\"):
		return "", "", &HostnameError{"must be a host name alone, such as www.example.com, without https:// and a path"}
	case strings.Contains(raw, "*"):
		return "", "", &HostnameError{"must not be a wildcard; add each host name that is to be looked at"}
	}
	host = raw
	if h, after, err := net.SplitHostPort(raw); err == nil {
		n, err := strconv.ParseUint(after, 10, 16)
		if err != nil || n == 0 {
			return "", "", &HostnameError{"has a port that does not exist"}
		}
		host, port = h, strconv.FormatUint(n, 10)
	}
	host = strings.TrimSuffix(host, ".") // the root; certificates name hosts without it
	host, err = asciiHost(host)
	switch {
	case err != nil:
		return "", "", &HostnameError{"is not a valid host name; write it as www.example.com"}
	case len(host) > maxHostname:
		return "", "", tooLongHostname()
	}
	return host, port, nil
}

func tooLongHostname() error {
	return &HostnameError{"is longer than " + strconv.Itoa(maxHostname) + " characters"}
}

// checkWebsite refuses hosts that are no website of a single owner.
func (p Policy) checkWebsite(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if p.ClassifyAddr(addr) == Allowed {
			return nil
		}
		return &HostnameError{"must be a name, not an IP address"}
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	suffix, listed := publicsuffix.PublicSuffix(host)
	switch {
	case isNumber(last):
		return &HostnameError{"reads as a number; write the name of a public host"}
	case last == "localhost" && !p.allowsLoopback():
		return &HostnameError{"names this machine; write the name of a public host"}
	case len(labels) == 1 && (listed || len(p.Allow) == 0), len(labels) > 1 && suffix == host:
		return &HostnameError{"is a public suffix, under which many owners have names; add your own name below it"}
	}
	return nil
}

// hasHost reports whether the relay is reached by that name. Loopback names belong to every service of a machine, so
// they are compared with their port, empty for 443.
func (s *OwnURLs) hasHost(host, port string) bool {
	if s == nil || !s.hosts[host] {
		return false
	}
	if port == "" {
		port = "443"
	}
	return !IsLoopback(host) || port == strconv.Itoa(int(s.port))
}
