package egress

import (
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Self are the URLs that lead back to this relay. A destination there would make of each event another one, and of
// fifty such destinations fifty, until the disk is full. A detour through other names and proxies is not seen here;
// such loops end by the header relay-hops.
type OwnURLs struct {
	scheme string
	port   uint16
	hosts  map[string]bool
	base   string // path of the base URL
}

// ownPaths are the surfaces that make events or findings of what is posted to them, or deliver events again. Those of
// the API ask for a key, which a destination may add as a header.
var ownPaths = []string{"/in", "/drain", "/api", "/v1", "/mcp"}

// NewOwnURLs takes the public address of the relay and the other names that it is called by.
func NewOwnURLs(baseURL string, names []string) *OwnURLs {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil
	}
	port, err := portOf(u)
	if err != nil {
		return nil
	}
	s := &OwnURLs{scheme: u.Scheme, port: port, hosts: make(map[string]bool), base: strings.TrimRight(u.Path, "/")}
	for _, name := range append([]string{u.Hostname()}, names...) {
		if host, err := asciiHost(strings.TrimSuffix(name, ".")); err == nil {
			s.hosts[host] = true
		}
	}
	for host := range s.hosts {
		if isLoopbackName(host) { // which has several
			s.hosts["localhost"], s.hosts["127.0.0.1"], s.hosts["::1"] = true, true, true
			break
		}
	}
	return s
}

func isLoopbackName(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Leads reports whether a URL leads to one of the relay's own surfaces that take events.
func (s *OwnURLs) Matches(u *url.URL) bool {
	if s == nil || u == nil || u.Scheme != s.scheme {
		return false
	}
	port, err := portOf(u)
	if err != nil || port != s.port {
		return false
	}
	host, err := asciiHost(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil || !s.hosts[host] {
		return false
	}
	// A proxy may clean the path before the relay sees it.
	way, below := strings.CutPrefix(path.Clean("/"+u.Path), s.base)
	for _, own := range ownPaths {
		if below && (way == own || strings.HasPrefix(way, own+"/")) {
			return true
		}
	}
	return false
}
