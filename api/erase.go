package api

import (
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// erasedView is the answer to an erasure, the first one and every repeat.
type erasedView struct {
	ID              string   `json:"id"`
	Object          string   `json:"object"`
	PayloadErasedAt web.Time `json:"payload_erased_at"`
}

// payloads erases what was received.
type payloads struct {
	*core
	receipts Receipts
	erasures Erasures
}

// erasePayload erases what was received of an event and what was exchanged for it: body, headers and query, and the
// headers and bodies of its attempts. The event stays, with all that was decided of it. From the answer on no node
// shows the payload or begins to send it; the rows and the records of the log follow by themselves.
func (a *payloads) erasePayload(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.eventInPath(r)
	if err != nil {
		return err
	}
	if _, err := a.receipts.EventEndpoint(r.Context(), key.Account, d); err != nil {
		return err
	}
	at, err := a.erasures.ErasePayload(r.Context(), d)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, erasedView{ID: d.Text(id.Event), Object: "event", PayloadErasedAt: web.Time(at)})
	return nil
}
