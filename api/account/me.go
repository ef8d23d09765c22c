package account

import (
	"net/http"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// keyInfo serves GET /v1/me.
type keyInfo struct{ version string }

// me describes the API key of the request.
func (a *keyInfo) me(w http.ResponseWriter, _ *http.Request, key *config.Key) error {
	web.WriteJSON(w, http.StatusOK, wire.Me{AccountID: key.Account, KeyID: key.ID, KeyName: key.Name, Scope: key.Scope,
		Agent: key.Agent, Version: a.version})
	return nil
}
