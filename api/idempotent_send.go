package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

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
	// idempotencyWindow is how long the answer to a send is remembered.
	idempotencyWindow = 24 * time.Hour
	// idempotencyWait is how long a repeat waits for the first call to end.
	idempotencyWait = 5 * time.Second
	// maxWaitingRequests bounds the repeats of this node that wait: each holds its body.
	maxWaitingRequests = 256
)

// looks are the pauses between two looks at a claim.
var claimBackoff = wait.Backoff{First: 5 * time.Millisecond, Longest: 200 * time.Millisecond}

// idempotencyKey is the key of a request, empty when it has none.
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

// setIdempotencyUnavailable says that a repeat of this request may not be recognised: a client that relies on it must know.
func setIdempotencyUnavailable(w http.ResponseWriter) {
	w.Header().Set("Idempotency-Status", "unavailable")
}

// once is one call of a send under an Idempotency-Key. The first call claims the key, stores the event, and says
// that it is stored; a repeat is answered as the first call was, from the event. What was refused is remembered as
// well: the same body is judged again, and gets the same 400. All of this is in the limiter store. While that is
// away a send is processed without, and what it forgets may be stored twice, never lost.
type idempotentSend struct {
	sender   *sender
	account  string
	key      string // of the claim: account, path and key
	bodyHash string // of the body
	id       id.ID  // of the event, if this call is the first
}

// refused marks what is remembered of a request that was answered 400.
const refusedMark = "!"

func (a *sender) newIdempotentSend(r *http.Request, ep *config.Endpoint, key string, body []byte, d id.ID) *idempotentSend {
	sum := sha256.Sum256(body)
	return &idempotentSend{
		sender: a, account: ep.Account, key: strings.Join([]string{"idempotency", ep.Account, r.URL.Path, key}, "\x00"),
		bodyHash: base64.RawURLEncoding.EncodeToString(sum[:]), id: d,
	}
}

// send stores the event by accept, unless the request was judged a 400, and returns its row; or what the first call
// came to.
func (o *idempotentSend) send(w http.ResponseWriter, r *http.Request, refusal error, accept func() (eventRow, error)) (
	eventRow, error) {
	claim, err := o.claim(r.Context())
	if err != nil {
		return eventRow{}, err
	}
	switch claim.State {
	case limit.ClaimStored:
		return o.answerRepeat(w, r, refusal, claim)
	case limit.ClaimUnavailable:
		setIdempotencyUnavailable(w)
		if refusal != nil {
			return eventRow{}, refusal
		}
		return accept()
	}
	if refusal != nil {
		o.remember(w, refusedMark+o.bodyHash)
		return eventRow{}, refusal
	}
	row, err := accept()
	switch {
	case err == nil:
		o.remember(w, o.bodyHash)
	case errors.Is(err, stream.ErrBufferFull), errors.Is(err, id.ErrClock):
		o.sender.limiterStore.Release(context.WithoutCancel(r.Context()), o.key, o.id)
	}
	// After any other error the event may yet arrive, so that its claim has to stand until it runs out.
	return row, err
}

// keep says what the first call came to. What it has stored is stored, whether that is remembered or not.
func (o *idempotentSend) remember(w http.ResponseWriter, note string) {
	if o.sender.limiterStore.MarkStored(context.Background(), o.key, o.id, note, idempotencyWindow) != nil {
		setIdempotencyUnavailable(w)
	}
}

// claim is the first step. It waits while another call with the key and the same body is running.
func (o *idempotentSend) claim(ctx context.Context) (limit.Claim, error) {
	// Not with the caller's context: one that has left must not be taken for a limiter store that is away.
	tryClaim := func() (limit.Claim, bool, error) {
		c := o.sender.limiterStore.Claim(context.WithoutCancel(ctx), o.key, o.id, o.bodyHash)
		if (c.State == limit.ClaimPending || c.State == limit.ClaimStored) && strings.TrimPrefix(c.Note, refusedMark) != o.bodyHash {
			return c, false, &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: idempotencyHeader,
				Message: "was sent before with another body; a new request needs a new key"}
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
				return c, errStillRunning() // to nobody
			}
			return o.findStored(ctx, c)
		}
		c, pending, err = tryClaim()
	}
	return c, err
}

// late looks for the event of a claim that is still pending after all the wait. It is there when the first
// call's node has died after storing it.
func (o *idempotentSend) findStored(ctx context.Context, c limit.Claim) (limit.Claim, error) {
	if _, err := o.sender.events.Event(ctx, o.account, c.Event); err != nil {
		return c, errStillRunning()
	}
	c.State = limit.ClaimStored
	// What is not remembered now is found again in the same way.
	_ = o.sender.limiterStore.MarkStored(ctx, o.key, c.Event, c.Note, idempotencyWindow)
	return c, nil
}

func errStillRunning() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: idempotencyHeader,
		RetryAfter: time.Second,
		Message:    "belongs to a request that is still running; send it again"}
}

// repeat is what the first call came to: its 400, or the row of its event as it is now.
func (o *idempotentSend) answerRepeat(w http.ResponseWriter, r *http.Request, refusal error, first limit.Claim) (eventRow, error) {
	if strings.HasPrefix(first.Note, refusedMark) {
		w.Header().Set("Idempotent-Replayed", "true")
		if refusal == nil { // the body is the same, so it is the endpoint that was disabled then
			refusal = errDisabled()
		}
		return eventRow{}, refusal
	}
	d, err := o.sender.events.Event(r.Context(), o.account, first.Event)
	if err != nil {
		return eventRow{}, web.From(toWebError(err))
	}
	setAsOf(w, d.AsOf)
	w.Header().Set("Idempotent-Replayed", "true")
	return rowOf(&d.Summary), nil
}
