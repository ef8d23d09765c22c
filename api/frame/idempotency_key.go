package frame

import (
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// IdempotencyHeader has the key of a POST.
	IdempotencyHeader = "Idempotency-Key"
	// MaxIdempotencyKey is its length, in characters.
	MaxIdempotencyKey = 255
	// IdempotencyWindow is how long an Idempotency-Key is remembered.
	IdempotencyWindow = 24 * time.Hour
	// IdempotencyWait is how long a repeat waits for the first call to end, and a replay for other replays.
	IdempotencyWait = 5 * time.Second
	// MaxWaitingRequests bounds the repeats and replays that wait on this node: each holds its body in memory.
	MaxWaitingRequests = 256
)

// ClaimBackoff spaces the checks of a claim that another call holds, or of a replay that must wait.
var ClaimBackoff = wait.Backoff{First: 5 * time.Millisecond, Longest: 200 * time.Millisecond}

// IdempotencyKey returns the Idempotency-Key of a request, empty if it has none.
func IdempotencyKey(r *http.Request) (string, error) {
	values := r.Header[IdempotencyHeader]
	if len(values) == 0 || r.Method != http.MethodPost {
		return "", nil
	}
	if len(values) > 1 || !ValidIdempotencyKey(values[0]) {
		return "", web.Invalid(IdempotencyHeader, "must be sent once, with 1 to %d printable ASCII characters",
			MaxIdempotencyKey)
	}
	return values[0], nil
}

// ValidIdempotencyKey reports whether a text may be an Idempotency-Key.
func ValidIdempotencyKey(key string) bool {
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	return key != "" && len(key) <= MaxIdempotencyKey && !strings.ContainsFunc(key, unprintable)
}

// SetIdempotencyUnavailable tells the client that a repeat of this request may not be recognised.
func SetIdempotencyUnavailable(w http.ResponseWriter) {
	w.Header().Set("Idempotency-Status", "unavailable")
}

// ErrOtherBody is the error for an Idempotency-Key that a different request has used.
func ErrOtherBody() error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: IdempotencyHeader,
		Message: "was used before with another body; use a new key for a new request"}
}

// ErrStillRunning is the 429 of a repeat while the first call is running.
func ErrStillRunning() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: IdempotencyHeader,
		RetryAfter: time.Second,
		Message:    "belongs to a request that is still running; wait as long as Retry-After says and send it again"}
}
