package api

import (
	"net/http"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Validations have paths of their own. They are no parameters of the requests that change something, because a version
// that does not know a parameter would make the change.

// validateEndpoint validates a body of createEndpoint.
func (a *endpoints) validateEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, in, err := a.newEndpoint(r, key)
	if err != nil {
		return err
	}
	if err := a.config.CheckCreate(e); err != nil {
		return err
	}
	return a.answerValidation(w, r, in, nil, e)
}

// validateChange validates a body of updateEndpoint.
func (a *endpoints) validateChange(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	before, err := a.endpointInPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	in := a.newEndpointInput(false)
	after, err := a.config.CheckUpdate(before, func(e *config.Endpoint) error {
		if in.err = checkRevision(r, e); in.err == nil {
			in.merge(key, body, e)
		}
		return in.err
	})
	if err != nil {
		return err
	}
	return a.answerValidation(w, r, in, before, after)
}

func (a *endpoints) answerValidation(w http.ResponseWriter, r *http.Request, in *endpointInput,
	before, after *config.Endpoint,
) error {
	a.warnAddresses(r.Context(), in, before, after)
	web.WriteJSON(w, http.StatusOK, wire.Validation{Object: "validation", Warnings: in.warnings})
	return nil
}
