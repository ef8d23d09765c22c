package api

import (
	"net/netip"
	"net/url"

	"github.com/eventrelay/relay/pkg/web"
)

// hostsOf are the names that a client may call the service by.
func hostsOf(cfg *Config) map[string]bool {
	hosts := make(map[string]bool)
	if u, err := url.Parse(cfg.BaseURL); err == nil {
		hosts[web.HostName(u.Host)] = true
	}
	for _, h := range cfg.AllowedHosts {
		hosts[web.HostName(h)] = true
	}
	return hosts
}

// checkHost refuses a request that was sent to a foreign name: a page of somebody else's, whose name has been made to
// lead here, makes a browser send such. It takes a name to do that, and one that the attacker has: addresses and
// localhost pass. Providers are not asked: an event is worth more than the name it came by.
func (rt *router) checkHost(host string) error {
	name := web.HostName(host)
	_, err := netip.ParseAddr(name)
	if err == nil || name == "localhost" || rt.hosts[name] {
		return nil
	}
	return web.Invalid("host", "unknown host name: use the base URL, or let the operator add the name to "+
		"RELAY_ALLOWED_HOSTS")
}
