package endpoints

import (
	"net/http"

	"github.com/eventrelay/relay/api/frame"
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
	a.warnAddresses(r.Context(), in, nil, e)
	return answerValidation(w, in)
}

// validateChange validates a body of updateEndpoint.
func (a *endpoints) validateChange(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	merge := func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
		if err := frame.CheckRevision(r, e); err != nil {
			in.Err = err
		}
		in.merge(key, o, e)
	}
	_, in, err := a.changeEndpoint(r, key, a.config.CheckUpdate, merge)
	if err != nil {
		return err
	}
	return answerValidation(w, in)
}

func answerValidation(w http.ResponseWriter, in *endpointInput) error {
	web.WriteJSON(w, http.StatusOK, wire.Validation{Object: "validation", Warnings: in.Warnings})
	return nil
}
