package egress

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

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
	return !isLoopbackName(host) || port == strconv.Itoa(int(s.port))
}
