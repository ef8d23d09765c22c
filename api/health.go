package api

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// public serves everything outside of /v1: health checks and documentation.
type public struct {
	ready *Readiness
	pages func() (map[string]*page, error) // by path; built at the first request
}

// servePublic answers a path outside of /v1.
func (a *public) servePublic(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return web.Missing("there is no such route")
	}
	switch r.URL.Path {
	case "/healthz":
		web.InfoOf(r).Route = r.URL.Path
		web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		return nil
	case "/readyz":
		web.InfoOf(r).Route = r.URL.Path
		a.serveReadiness(w)
		return nil
	case web.DocsPath:
		web.InfoOf(r).Route = r.URL.Path
		return writeErrorDocs(w)
	}
	return a.servePage(w, r)
}

// serveReadiness answers with the result of the latest checks. The errors are only in the log, because everyone can
// read this answer.
func (a *public) serveReadiness(w http.ResponseWriter) {
	checks, status, word := a.ready.last(), http.StatusOK, "ready"
	if slices.ContainsFunc(checks, checkView.blocks) {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	web.WriteJSON(w, status, map[string]any{"status": word, "checks": checks})
}

// keyInfo serves GET /v1/me.
type keyInfo struct{ version string }

// me describes the API key of the request.
func (a *keyInfo) me(w http.ResponseWriter, _ *http.Request, key *config.Key) error {
	web.WriteJSON(w, http.StatusOK, struct {
		Account string       `json:"account_id"`
		KeyID   string       `json:"key_id"`
		Name    string       `json:"key_name"`
		Scope   config.Scope `json:"scope"`
		Agent   bool         `json:"agent"`
		Version string       `json:"version"`
	}{key.Account, key.ID, key.Name, key.Scope, key.Agent, a.version})
	return nil
}
