package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// idempotentSend is one send under an Idempotency-Key. The first call claims the key, stores the event and marks the
// claim as stored. A repeat is answered with the event's current row. A refusal is remembered as well: a repeat has the
// same body, so it is validated again and gets the same 400. While the limiter store is unavailable a send is processed
// without a claim: a repeat may then store a second event, but none is lost.
type idempotentSend struct {
	sender  *sender
	request *claim.Request // its note is the base64 SHA-256 of the body, after refusedMark if the answer was 400
}

// refusedMark begins the note of a claim whose request was answered 400.
const refusedMark = "!"

func (a *sender) newIdempotentSend(
	r *http.Request, ep *config.Endpoint, key string, body []byte, d id.ID) *idempotentSend {
	sum := sha256.Sum256(body)
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	return &idempotentSend{sender: a, request: &claim.Request{
		Account: ep.Account, Key: strings.Join([]string{"idempotency", ep.Account, r.URL.Path, key}, "\x00"),
		Event: d, Note: hash, Size: 1, Window: frame.IdempotencyWindow,
		Differs: func(note string) bool { return strings.TrimPrefix(note, refusedMark) != hash },
	}}
}

// send stores the event with accept, unless refusal is set, and returns its row. For a repeat it returns the result
// of the first call.
func (o *idempotentSend) send(w http.ResponseWriter, r *http.Request, refusal error, accept func() (wire.EventRow,
	error)) (
	wire.EventRow, error) {
	held, err := o.claim(r.Context())
	if err != nil {
		return wire.EventRow{}, err
	}
	switch held.State {
	case claim.Stored:
		return o.answerRepeat(w, r, refusal, held)
	case claim.Unavailable:
		frame.SetIdempotencyUnavailable(w)
		if refusal != nil {
			return wire.EventRow{}, refusal
		}
		return accept()
	}
	if refusal != nil {
		o.refuse(w, r)
		return wire.EventRow{}, refusal
	}
	row, err := accept()
	o.finish(w, r, err)
	return row, err
}

// refuse remembers that the first call was answered 400.
func (o *idempotentSend) refuse(w http.ResponseWriter, r *http.Request) {
	o.request.Note = refusedMark + o.request.Note
	o.finish(w, r, nil)
}

// finish records the result of the first call. The event is stored even if this fails.
func (o *idempotentSend) finish(w http.ResponseWriter, r *http.Request, err error) {
	if o.sender.claims.Finish(r.Context(), o.request, err) != nil {
		frame.SetIdempotencyUnavailable(w)
	}
}

// claim claims the key, and waits for another call with the same key and body.
func (o *idempotentSend) claim(ctx context.Context) (claim.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, frame.IdempotencyWait)
	defer cancel()
	held := o.sender.claims.Begin(ctx, o.request)
	switch {
	case (held.State == claim.Pending || held.State == claim.Stored) && o.request.Differs(held.Note):
		return held, frame.ErrOtherBody()
	case held.State == claim.Pending:
		return held, frame.ErrStillRunning()
	}
	return held, nil
}

// answerRepeat returns the result of the first call: its 400, or the current row of its event.
func (o *idempotentSend) answerRepeat(w http.ResponseWriter, r *http.Request, refusal error, first claim.Claim) (
	wire.EventRow, error) {
	if strings.HasPrefix(first.Note, refusedMark) {
		w.Header().Set("Idempotent-Replayed", "true")
		if refusal == nil { // the body is the same, so the endpoint was disabled at the first call
			refusal = errDisabled()
		}
		return wire.EventRow{}, refusal
	}
	d, err := o.sender.events.Event(r.Context(), o.request.Account, first.Event)
	if err != nil {
		return wire.EventRow{}, web.FromError(frame.ToWebError(err))
	}
	frame.SetAsOf(w, d.AsOf)
	w.Header().Set("Idempotent-Replayed", "true")
	return rowOf(&d.Summary), nil
}
