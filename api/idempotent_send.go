package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
	// idempotencyWindow is how long an Idempotency-Key is remembered.
	idempotencyWindow = 24 * time.Hour
	// idempotencyWait is how long a repeat waits for the first call to end, and a replay for other replays.
	idempotencyWait = 5 * time.Second
	// maxWaitingRequests bounds the repeats and replays that wait on this node: each holds its body in memory.
	maxWaitingRequests = 256
)

// claimBackoff spaces the checks of a claim that another call holds, or of a replay that must wait.
var claimBackoff = wait.Backoff{First: 5 * time.Millisecond, Longest: 200 * time.Millisecond}

// idempotencyKey returns the Idempotency-Key of a request, empty if it has none.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header[idempotencyHeader]
	if len(values) == 0 || r.Method != http.MethodPost {
		return "", nil
	}
	if len(values) > 1 || !validIdempotencyKey(values[0]) {
		return "", web.Invalid(idempotencyHeader, "must be sent once, with 1 to %d printable ASCII characters",
			maxIdempotencyKey)
	}
	return values[0], nil
}

func validIdempotencyKey(key string) bool {
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	return key != "" && len(key) <= maxIdempotencyKey && !strings.ContainsFunc(key, unprintable)
}

// setIdempotencyUnavailable tells the client that a repeat of this request may not be recognised.
func setIdempotencyUnavailable(w http.ResponseWriter) {
	w.Header().Set("Idempotency-Status", "unavailable")
}

// idempotentSend is one send under an Idempotency-Key. The first call claims the key in the limiter store (Redis),
// stores the event and marks the claim as stored. A repeat is answered with the event's current row. A refusal is
// remembered as well: a repeat has the same body, so it is validated again and gets the same 400. While the limiter
// store is unavailable a send is processed without a claim: a repeat may then store a second event, but none is
// lost.
type idempotentSend struct {
	sender   *sender
	account  string
	key      string // key of the claim: account, path and Idempotency-Key
	bodyHash string // SHA-256 of the body, in base64
	id       id.ID  // id of the event if this call is the first
}

// refusedMark begins the note of a claim whose request was answered 400.
const refusedMark = "!"

func (a *sender) newIdempotentSend(
	r *http.Request, ep *config.Endpoint, key string, body []byte, d id.ID) *idempotentSend {
	sum := sha256.Sum256(body)
	return &idempotentSend{
		sender: a, account: ep.Account, key: strings.Join([]string{"idempotency", ep.Account, r.URL.Path, key}, "\x00"),
		bodyHash: base64.RawURLEncoding.EncodeToString(sum[:]), id: d,
	}
}

// send stores the event with accept, unless refusal is set, and returns its row. For a repeat it returns the result
// of the first call.
func (o *idempotentSend) send(w http.ResponseWriter, r *http.Request, refusal error, accept func() (wire.EventRow,
	error)) (
	wire.EventRow, error) {
	claim, err := o.claim(r.Context())
	if err != nil {
		return wire.EventRow{}, err
	}
	switch claim.State {
	case limit.ClaimStored:
		return o.answerRepeat(w, r, refusal, claim)
	case limit.ClaimUnavailable:
		setIdempotencyUnavailable(w)
		if refusal != nil {
			return wire.EventRow{}, refusal
		}
		return accept()
	}
	if refusal != nil {
		o.remember(w, refusedMark+o.bodyHash)
		return wire.EventRow{}, refusal
	}
	row, err := accept()
	switch {
	case err == nil:
		o.remember(w, o.bodyHash)
	case errors.Is(err, stream.ErrBufferFull), errors.Is(err, id.ErrClock):
		o.sender.limiterStore.Release(context.WithoutCancel(r.Context()), o.key, o.id)
	}
	// After any other error the event may still become durable, so the claim stays until it expires.
	return row, err
}

// remember records the result of the first call. The event is stored even if this fails.
func (o *idempotentSend) remember(w http.ResponseWriter, note string) {
	if o.sender.limiterStore.MarkStored(context.Background(), o.key, o.id, note, idempotencyWindow) != nil {
		setIdempotencyUnavailable(w)
	}
}

// claim claims the key, and waits while another call with the same key and body is running.
func (o *idempotentSend) claim(ctx context.Context) (limit.Claim, error) {
	// Without the client's context: a client that leaves must not look like a limiter store that fails.
	tryClaim := func() (limit.Claim, bool, error) {
		c := o.sender.limiterStore.Claim(context.WithoutCancel(ctx), o.key, o.id, o.bodyHash)
		if (c.State == limit.ClaimPending || c.State == limit.ClaimStored) &&
			strings.TrimPrefix(c.Note, refusedMark) != o.bodyHash {
			return c, false, &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: idempotencyHeader,
				Message: "was used before with another body; use a new key for a new request"}
		}
		return c, c.State == limit.ClaimPending, nil
	}
	c, pending, err := tryClaim()
	if !pending {
		return c, err
	}
	defer o.sender.waitingRequests.Add(-1)
	if o.sender.waitingRequests.Add(1) > maxWaitingRequests {
		return c, errStillRunning()
	}
	limited, cancel := context.WithTimeout(ctx, idempotencyWait)
	defer cancel()
	for try := 0; pending; try++ {
		if wait.For(limited, claimBackoff.After(try)) != nil {
			if ctx.Err() != nil {
				return c, errStillRunning() // the client has left
			}
			return o.findStored(ctx, c)
		}
		c, pending, err = tryClaim()
	}
	return c, err
}

// findStored looks for the event of a claim that is still pending after the wait. It exists if the first call's node
// died after it stored the event.
func (o *idempotentSend) findStored(ctx context.Context, c limit.Claim) (limit.Claim, error) {
	if _, err := o.sender.events.Event(ctx, o.account, c.Event); err != nil {
		return c, errStillRunning()
	}
	c.State = limit.ClaimStored
	// If this fails, the next repeat finds the event in the same way.
	_ = o.sender.limiterStore.MarkStored(ctx, o.key, c.Event, c.Note, idempotencyWindow)
	return c, nil
}

func errStillRunning() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: idempotencyHeader,
		RetryAfter: time.Second,
		Message:    "belongs to a request that is still running; wait as long as Retry-After says and send it again"}
}

// answerRepeat returns the result of the first call: its 400, or the current row of its event.
func (o *idempotentSend) answerRepeat(w http.ResponseWriter, r *http.Request, refusal error, first limit.Claim) (
	wire.EventRow, error) {
	if strings.HasPrefix(first.Note, refusedMark) {
		w.Header().Set("Idempotent-Replayed", "true")
		if refusal == nil { // the body is the same, so the endpoint was disabled at the first call
			refusal = errDisabled()
		}
		return wire.EventRow{}, refusal
	}
	d, err := o.sender.events.Event(r.Context(), o.account, first.Event)
	if err != nil {
		return wire.EventRow{}, web.FromError(toWebError(err))
	}
	setAsOf(w, d.AsOf)
	w.Header().Set("Idempotent-Replayed", "true")
	return rowOf(&d.Summary), nil
}
