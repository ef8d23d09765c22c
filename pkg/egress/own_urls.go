package egress

import (
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// OwnURLs recognises URLs of this relay. A destination with such a URL would turn each event into a new one, in a loop.
// Loops through other names and proxies are not recognised here; the header relay-hops, which counts deliveries, ends
// them.
type OwnURLs struct {
	scheme string
	port   uint16
	hosts  map[string]bool
	base   string // path of the base URL
}

// ownPaths are the paths whose handlers create events or deliver them again. Those of the API need a key, which a
// destination can send in a configured header.
var ownPaths = []string{"/in", "/drain", "/api", "/v1", "/mcp"}

// NewOwnURLs returns the URLs of a relay with this base URL and these other host names; nil if the base URL is invalid.
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
		if isLoopbackName(host) { // loopback has several names
			s.hosts["localhost"], s.hosts["127.0.0.1"], s.hosts["::1"] = true, true, true
			break
		}
	}
	return s
}

func isLoopbackName(host string) bool {
	addr, _ := netip.ParseAddr(host) // for a name: the zero Addr, which is not loopback
	return host == "localhost" || addr.IsLoopback()
}

// Matches reports whether the relay itself would handle a request to u as one of ownPaths.
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
	// A proxy may normalise the path before the relay sees it.
	relative, below := strings.CutPrefix(path.Clean("/"+u.Path), s.base)
	for _, own := range ownPaths {
		if below && (relative == own || strings.HasPrefix(relative, own+"/")) {
			return true
		}
	}
	return false
}
