package events

import (
	"net/http"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// payloads erases the payloads of events.
type payloads struct {
	*frame.Core
	receipts Receipts
	erasures frame.Erasures
}

// erasePayload erases body, headers and query of an event, and headers and bodies of its attempts. The event stays
// listed with its outcomes. After the answer no node shows the payload or starts to send it; the rows in the store
// and the records in the log are removed later.
func (a *payloads) erasePayload(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.EventInPath(r)
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
	web.WriteJSON(w, http.StatusOK, wire.PayloadErased{ID: d.Text(id.Event), Object: "event",
		PayloadErasedAt: web.Time(at)})
	return nil
}
