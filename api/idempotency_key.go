package api

import (
	"net/http"
	"strings"
	"time"

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

// errOtherBody is the error for an Idempotency-Key that a different request has used.
func errOtherBody() error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: idempotencyHeader,
		Message: "was used before with another body; use a new key for a new request"}
}

func errStillRunning() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: idempotencyHeader,
		RetryAfter: time.Second,
		Message:    "belongs to a request that is still running; wait as long as Retry-After says and send it again"}
}
