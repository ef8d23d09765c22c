package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// readyTimeout bounds all checks of one /readyz together.
const readyTimeout = 3 * time.Second

// outside answers what is not under /v1.
func (a *API) outside(w http.ResponseWriter, r *http.Request) error {
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
		a.ready(w, r)
		return nil
	case web.DocsPath:
		web.InfoOf(r).Route = r.URL.Path
		return writeErrorDocs(w)
	}
	return a.servePage(w, r)
}

type checkView struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// ready asks every part. What is wrong stands in the log: the answer is public.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	checks, status, word := make([]checkView, len(a.deps.Ready)), http.StatusOK, "ready"
	for i, c := range a.deps.Ready {
		err := c.Func(ctx)
		checks[i] = checkView{c.Name, err == nil}
		if err != nil {
			status, word = http.StatusServiceUnavailable, "not ready"
			a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("check", c.Name), slog.String("error", err.Error()))
		}
	}
	web.WriteJSON(w, status, map[string]any{"status": word, "checks": checks})
}

// me tells a caller what the key is.
func (a *API) me(w http.ResponseWriter, _ *http.Request, key *control.Key) error {
	web.WriteJSON(w, http.StatusOK, struct {
		Account string        `json:"account_id"`
		KeyID   string        `json:"key_id"`
		Name    string        `json:"key_name"`
		Scope   control.Scope `json:"scope"`
		Agent   bool          `json:"agent"`
		Version string        `json:"version"`
	}{key.Account, key.ID, key.Name, key.Scope, key.Agent, a.cfg.Version})
	return nil
}
