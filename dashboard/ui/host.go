package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/web"
)

// isOnlyHere reports whether a URL names this machine alone, unreachable from the internet.
func isOnlyHere(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (egress.IsLoopback(u.Hostname()) || strings.HasSuffix(u.Hostname(), ".localhost"))
}

// hosts decides under which host names the dashboard answers and which origins may post to it.
type hosts struct {
	names       map[string]bool // in lower case, without a port
	anyAddress  bool            // every IP address is accepted too
	publicURL   string          // of the dashboard, without a trailing slash
	baseHost    string          // name of the host in the base URL
	origin      string          // of publicURL
	scheme      string          // of the base URL
	onlyName    bool            // RELAY_DASHBOARD_HOST is set
	explainBase bool            // RELAY_BASE_URL is not set
	start       string          // URL of the first page, for those who come under another name
}

// newHosts returns the names of pages whose own host name is name, if that is set; the first of them is at path.
func newHosts(cfg *Config, name, path string) (*hosts, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("base URL: want http(s)://host")
	}
	h := &hosts{names: map[string]bool{}, publicURL: URL(cfg.BaseURL, name), scheme: base.Scheme,
		baseHost: web.HostName(base.Host), onlyName: name != "", explainBase: cfg.BaseURLIsDefault,
		start: URL(cfg.BaseURL, name) + path}
	public, err := url.Parse(h.publicURL)
	if err != nil {
		return nil, fmt.Errorf("dashboard host: %w", err)
	}
	h.origin = public.Scheme + "://" + strings.ToLower(public.Host)
	if h.onlyName {
		h.names[web.HostName(name)] = true
		return h, nil
	}
	h.names[h.baseHost] = true
	for _, name := range cfg.AllowedHosts {
		h.names[web.HostName(name)] = true
	}
	if cfg.Dev || egress.IsLoopback(h.baseHost) {
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			h.names[name] = true
		}
	}
	switch {
	case !cfg.Listen.IsValid():
	case !cfg.Listen.IsUnspecified():
		h.names[cfg.Listen.Unmap().String()] = true
	case cfg.BaseURLIsDefault: // reached by the addresses of the machine
		h.anyAddress = true
	}
	return h, nil
}

// check returns an error for a host that the dashboard does not answer under, against DNS rebinding: a foreign page
// whose host name resolves to this server could use the cookie of its visitor. A bare address needs no name, but is
// accepted only where people use it: it is in the base URL, or the server listens on it.
func (h *hosts) check(r *http.Request) error {
	name := web.HostName(r.Host)
	if u, err := url.Parse("//" + r.Host); err != nil || u.Host != r.Host { // its port is a number
		return errHost(h)
	}
	addr, err := netip.ParseAddr(name)
	if err == nil {
		name = addr.Unmap().String()
	}
	if h.names[name] || h.anyAddress && err == nil {
		return nil
	}
	return errHost(h)
}

// codeHost marks the error of an unknown host name.
const codeHost = "host"

func errHost(h *hosts) error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.InvalidRequest, Code: codeHost,
		Message: "This page does not answer under this host name. Open " + h.start + " instead."}
}

// HasForeignName reports whether the page was opened under another name than that of the default base URL.
func (v *Visit) HasForeignName() bool {
	h := v.hosts
	return h.explainBase && !h.onlyName && web.HostName(v.R.Host) != h.baseHost
}

// origins returns the origins that the browser may see for a request: that of the request's host, and the public one,
// which a proxy that rewrites Host hides.
func (h *hosts) origins(r *http.Request) []string {
	scheme := h.scheme
	if r.TLS != nil {
		scheme = "https"
	}
	own := scheme + "://" + strings.ToLower(r.Host)
	if own == h.origin {
		return []string{own}
	}
	return []string{h.origin, own}
}

// isTrustworthy reports whether browsers may take the page for trustworthy: it came by https or from this machine. Over
// plain http from elsewhere they send no Sec-Fetch-Site, ignore Cross-Origin-Opener-Policy, and report that as an
// error.
func (h *hosts) isTrustworthy(r *http.Request) bool {
	name := web.HostName(r.Host)
	return h.scheme == "https" || r.TLS != nil || egress.IsLoopback(name) || strings.HasSuffix(name, ".localhost") ||
		r.Header.Get("Sec-Fetch-Site") != ""
}

// codeOrigin marks the error of a request that does not come from our own page.
const codeOrigin = "origin"

// checkOrigin refuses a request that changes something unless it comes from a page of this origin. Browsers say so in
// Sec-Fetch-Site, except over plain http to a host other than localhost; there Origin decides. A request with neither
// header comes from no browser that we know.
func (h *hosts) checkOrigin(r *http.Request) error {
	site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	ours := false
	switch {
	case len(site) > 1 || len(origin) > 1 || len(origin) == 1 && origin[0] == "null":
	case len(site) == 1:
		ours = site[0] == "same-origin"
	case len(origin) == 1:
		ours = slices.Contains(h.origins(r), strings.ToLower(origin[0]))
	}
	if ours {
		return nil
	}
	return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope, Code: codeOrigin,
		Message: "This request does not come from a page of this dashboard. Nothing was done."}
}
