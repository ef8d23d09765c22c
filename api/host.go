package api

import (
	"net/netip"
	"net/url"

	"github.com/eventrelay/relay/pkg/web"
)

// hostsOf returns the host names under which clients may reach the API.
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

// checkHost refuses unknown host names, against DNS rebinding: a foreign page whose host name resolves to this
// server could make a browser call the API. The attack needs a host name of the attacker's, so IP addresses and
// localhost pass. Ingest accepts every name, because losing an event is worse.
func (rt *router) checkHost(host string) error {
	name := web.HostName(host)
	_, err := netip.ParseAddr(name)
	if err == nil || name == "localhost" || rt.hosts[name] {
		return nil
	}
	return web.Invalid("host", "unknown host name; use the base URL, or ask the operator to add the name to "+
		"RELAY_ALLOWED_HOSTS")
}
