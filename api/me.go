package api

import (
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

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
