package frame

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// This file implements the Idempotency-Key of every POST except sends of events, in the configuration log. A call
// claims its key with a conditional record before it does anything, and writes its answer to the claim before it
// sends it. So one call on all nodes does the work, and a repeat gets the answer of the first.
//
// A call whose node dies leaves its claim. After ClaimLife a repeat takes it over and continues, on routes where this
// cannot do the work twice: the ids of what it creates derive from the claim, or repeating the work changes nothing
// (see Route.Resumable). On other routes the effect of the first call is unknown, and the repeat gets a 400 conflict.

const (
	// DefaultClaimLife is how long a call may run before its claim may be taken over. It is longer than any call but a
	// replay, whose run shows whether it is alive. All writes of a call are conditional, so a call that resumes later does
	// no harm.
	DefaultClaimLife = 30 * time.Second
	// maxRememberedAnswer bounds a remembered answer in bytes, compressed. Sealed and in base64 it fits into
	// conflog.MaxEntityBytes. Of a larger answer only the status is remembered.
	maxRememberedAnswer = 180 << 10
	// claimTimeout bounds one write of a claim or an answer.
	claimTimeout = 10 * time.Second
)

// Call is one call under an Idempotency-Key.
type Call struct {
	claim     *config.Answer
	Subject   id.ID // see config.Answer
	TakenOver bool  // it took over the claim of a call that ended without an answer
	// Remembered is the body that a repeat gets, if it is another one: without secrets that are shown once. The handler
	// sets it.
	Remembered []byte
}

type callKey struct{}

// CallOf returns the call of a request, nil without an Idempotency-Key.
func CallOf(r *http.Request) *Call {
	c, _ := r.Context().Value(callKey{}).(*Call)
	return c
}

// NewID returns the id of the resource that the request creates. All calls with the same Idempotency-Key get the
// same id.
func NewID(r *http.Request, prefix string) string {
	c := CallOf(r)
	if c == nil {
		return id.Random(prefix)
	}
	sum := sha256.Sum256(append([]byte(prefix), c.Subject[:]...))
	return id.ID(sum[:16]).Text(prefix)
}

// RotatedBy returns how a secret names the request that creates it, empty without an Idempotency-Key. All calls with
// the same Idempotency-Key have the same name, so a repeat finds out that the secret was rotated before.
func RotatedBy(r *http.Request) string {
	c := CallOf(r)
	if c == nil {
		return ""
	}
	return c.claim.IDSeed
}

// IdempotentCalls remembers the answers of requests with an Idempotency-Key.
type IdempotentCalls struct {
	*Core
	// ClaimLife is how long a call may run before its claim may be taken over.
	ClaimLife time.Duration
}

// WithIdempotency wraps the handler of a route so that repeats get the answer of the first call.
func (a *IdempotentCalls) WithIdempotency(called *Route, next HandlerFunc) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, key *config.Key) error {
		text, err := IdempotencyKey(r)
		if err != nil || text == "" {
			return next(w, r, key) // it reports an invalid key after it has checked the path
		}
		next := next
		if strings.HasPrefix(text, id.Act) { // those of approved acts, see package confirm
			if !isPerson(key) {
				return web.Invalid(IdempotencyHeader, "must not begin with "+id.Act)
			}
			next = checkedAgain(next)
		}
		if called.InPath != nil {
			if err := called.InPath(r, key); err != nil {
				return err
			}
		}
		var body bytes.Buffer
		if err := web.ReadBody(r, &body, a.MaxBody); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body.Bytes())), int64(body.Len())
		sum := sha256.Sum256(body.Bytes())
		c, err := a.claim(r, key, text, sum[:], called)
		switch {
		case errors.Is(err, config.ErrAnswersFull) && isKeyOptional(called, key),
			errors.Is(err, config.ErrLevel): // unfinished upgrade
			SetIdempotencyUnavailable(w)
			return next(w, r, key)
		case errors.Is(err, config.ErrAnswersFull):
			return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: IdempotencyHeader,
				RetryAfter: time.Minute,
				Message: "cannot be stored: the Idempotency-Keys of the last 24 hours use all of their 64 MiB; nothing was done. " +
					"Repeat the request later, or send it without the header"}
		case err != nil:
			return err
		case c.claim.Status != 0:
			return a.answerRepeat(w, r, key, called, c.claim)
		}
		return a.runClaimed(w, r, key, c, called.Resumable, next)
	}
}

// checkedAgain calls the check of config.WithSessionCheck right before a handler: the call may have waited for its
// claim, and whoever asked for it may have lost the right meanwhile.
func checkedAgain(next HandlerFunc) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, key *config.Key) error {
		if check := config.SessionCheck(r.Context()); check != nil {
			now, err := check()
			if err != nil {
				return err
			}
			if err := AuthorizeChange(now); err != nil {
				return err
			}
		}
		return next(w, r, key)
	}
}

// claim returns this request's call if it may do the work, or a call whose claim has the answer of an earlier request.
// It waits while another call is running.
func (a *IdempotentCalls) claim(r *http.Request, key *config.Key, text string, body []byte, called *Route) (
	*Call, error) {
	subject, err := a.IDs.New(0)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{ScopeOf(key), r.URL.Path, text}, "\x00")))
	mine := &config.Answer{
		Meta: entity.Meta{ID: id.ID(sum[:16]).Text("ans_")}, BodyHash: body, IDSeed: subject.String(),
		CallID: id.Random("call_"), APIKey: key.ID,
		ClaimedUntil: a.Now().Add(a.ClaimLife), ExpiresAt: a.Now().Add(IdempotencyWindow),
	}
	tenant := cmp.Or(key.Tenant, web.InfoOf(r).Vars["tenant"])
	c := &Call{}
	err = a.RetryUntilDone(r.Context(), func() (done bool, err error) {
		c.claim, c.TakenOver, err = a.tryClaim(r.Context(), mine, called, key, tenant)
		if e, ok := errors.AsType[*web.Error](err); ok {
			return e.Status != http.StatusTooManyRequests, err
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	c.Subject, err = id.Parse("", c.claim.IDSeed)
	return c, err
}

// tryClaim tries once to claim the key.
func (a *IdempotentCalls) tryClaim(
	ctx context.Context, mine *config.Answer, called *Route, key *config.Key, tenant string,
) (claim *config.Answer, takenOver bool, err error) {
	// Without the client's context: a claim that was cut off half-way would block the repeats.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	held, err := a.Answers.ClaimAnswer(ctx, mine, isKeyOptional(called, key))
	if err == nil && held.CallID != mine.CallID && a.isBefore(held, key.Account, tenant) {
		if err := a.Answers.ReleaseClaim(ctx, held); err != nil {
			return nil, false, err
		}
		held, err = a.Answers.ClaimAnswer(ctx, mine, isKeyOptional(called, key))
	}
	switch {
	case err != nil:
		return nil, false, err
	case !bytes.Equal(held.BodyHash, mine.BodyHash):
		return nil, false, ErrOtherBody()
	case held.Status != 0 || held.CallID == mine.CallID:
		return held, false, nil
	case a.Now().Before(held.ClaimedUntil):
		return nil, false, ErrStillRunning()
	case !called.Resumable:
		return nil, false, &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: IdempotencyHeader,
			Message: "belongs to a request that ended without an answer: it may or may not have taken effect; check what " +
				"it changed, and send what is missing with a new key"}
	}
	held, err = a.Answers.ChangeAnswer(ctx, mine.ID, func(x *config.Answer) error {
		if x.CallID == held.CallID && x.Status == 0 {
			x.CallID, x.APIKey, x.ClaimedUntil = mine.CallID, mine.APIKey, mine.ClaimedUntil
		}
		return nil
	})
	switch {
	case errors.Is(err, config.ErrNotFound): // expired or released
		return nil, false, ErrStillRunning()
	case err == nil && held.Status == 0 && held.CallID != mine.CallID: // another repeat was first
		return nil, false, ErrStillRunning()
	}
	return held, true, err
}

// isBefore reports whether an answer is older than the tenant that the request belongs to: then it belongs to a deleted
// tenant of that name. The sequence says so; times differ too, also after a move of the configuration to another log.
func (a *IdempotentCalls) isBefore(held *config.Answer, account, tenant string) bool {
	if tenant == "" {
		return false
	}
	t := a.Config.Tenant(account, tenant)
	return t != nil && held.Seq < t.Seq && held.CreatedAt.Before(t.CreatedAt)
}

// rememberedAnswer is an answer as it is stored: headers and body, or an error.
type rememberedAnswer struct {
	Header http.Header      `json:"header,omitempty"`
	Body   []byte           `json:"body,omitempty"` // byte for byte
	Error  *rememberedError `json:"error,omitempty"`
}

// rememberedError is a web.Error without the request id: each repeat has its own.
type rememberedError struct {
	Type, Message, Param, Code, Run string
	RetryAfter                      time.Duration
	Queued                          int
}

// runClaimed runs the handler for a claimed key, remembers its answer, and sends it.
func (a *IdempotentCalls) runClaimed(w http.ResponseWriter, r *http.Request, key *config.Key, c *Call, resumable bool,
	next HandlerFunc) error {
	recorded := &web.Recorder{}
	err := ToWebError(next(recorded, r.WithContext(context.WithValue(r.Context(), callKey{}, c)), key))
	crash.At("effect " + web.InfoOf(r).Route)
	status, answer := recorded.Status, rememberedAnswer{Header: recorded.Header(), Body: recorded.Body.Bytes()}
	if c.Remembered != nil {
		answer.Body, answer.Header = c.Remembered, answer.Header.Clone()
		answer.Header.Del("Content-Length")
	}
	if err != nil {
		e := web.FromError(err)
		status = e.Status
		answer = rememberedAnswer{Error: &rememberedError{
			Type: e.Type, Message: e.Message, Param: web.TruncateParam(e.Param), Code: e.Code, Run: e.Run,
			RetryAfter: e.RetryAfter,
			Queued:     e.Queued}}
	}
	if rememberErr := a.remember(r, c, status, answer, resumable); rememberErr != nil {
		// The work is done nevertheless. A repeat finds the claim without an answer.
		a.Log.LogAttrs(r.Context(), slog.LevelWarn, "cannot remember the answer of a request with an Idempotency-Key",
			slog.String("route", web.InfoOf(r).Route),
			slog.Any("error", rememberErr))
		SetIdempotencyUnavailable(w)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	for name, values := range recorded.Header() {
		h[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(recorded.Body.Bytes()) // the client may have left
	return nil
}

// remember stores an answer or releases the key. It stores successes, 400s other than conflict, and every answer of
// a call that started a run. After another 5xx on a resumable route, or when this call took over a claim, the work
// may have been done: then the claim stays, and the next repeat resumes it with the same ids.
func (a *IdempotentCalls) remember(
	r *http.Request, c *Call, status int, answer rememberedAnswer, resumable bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), claimTimeout)
	defer cancel()
	e := answer.Error
	switch {
	case e == nil, e.Run != "", status == http.StatusBadRequest && e.Type != web.Conflict:
	case status >= http.StatusInternalServerError && resumable, c.TakenOver:
		_, err := a.Answers.ChangeAnswer(ctx, c.claim.ID, func(x *config.Answer) error {
			if x.CallID == c.claim.CallID {
				x.ClaimedUntil = time.Time{}
			}
			return nil
		})
		return err
	default:
		return a.Answers.ReleaseClaim(ctx, c.claim)
	}
	sealed, err := a.seal(c.claim.ID, answer)
	if err != nil {
		return err
	}
	finish := func(with seal.Secret) error {
		_, err := a.Answers.ChangeAnswer(ctx, c.claim.ID, func(x *config.Answer) error {
			// Otherwise a repeat that took over the claim was faster, or the claim is another one: that of a deleted tenant
			// was released.
			if x.Status == 0 && x.IDSeed == c.claim.IDSeed {
				x.Status, x.Answer = status, with
			}
			return nil
		})
		return err
	}
	err = finish(sealed)
	if errors.Is(err, config.ErrAnswersFull) { // there is always room for the status
		err = finish("")
	}
	return err
}

// seal encodes, compresses and encrypts an answer. It returns an empty text for an answer that is too large.
func (a *IdempotentCalls) seal(name string, answer rememberedAnswer) (seal.Secret, error) {
	raw, err := json.Marshal(answer)
	if err != nil {
		return "", fmt.Errorf("encode an answer: %w", err)
	}
	packed := s2.EncodeBetter(nil, raw)
	if len(packed) > maxRememberedAnswer {
		return "", nil
	}
	return a.Keyring.SealString(name, config.FieldAnswer, string(packed)), nil
}

// shownSecret matches the signing secrets and API keys in an answer, and captures the last four characters of each.
var shownSecret = regexp.MustCompile(`"(secret|key)":"(?:whsec|whsk|rly_live)_[^"]*([^"]{4})"`)

// answerRepeat sends the answer of an earlier call. Anyone who knows its Idempotency-Key and its body, which may be
// {}, can ask for it. Therefore secrets in it are shown only to the API key of that call.
func (a *IdempotentCalls) answerRepeat(
	w http.ResponseWriter, r *http.Request, key *config.Key, called *Route, first *config.Answer) error {
	w.Header().Set("Idempotent-Replayed", "true")
	if first.Answer == "" {
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: IdempotencyHeader,
			Message: fmt.Sprintf("belongs to a request that took effect with the status %d; its response was too large to "+
				"remember, so read the resource instead", first.Status)}
	}
	packed, err := a.Keyring.OpenString(first.ID, config.FieldAnswer, first.Answer)
	if err != nil {
		return err
	}
	raw, err := s2.Decode(nil, []byte(packed))
	if err != nil {
		return fmt.Errorf("read a remembered answer: %w", err)
	}
	var answer rememberedAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("read a remembered answer: %w", err)
	}
	if e := answer.Error; e != nil {
		return &web.Error{Status: first.Status, Type: e.Type, Message: e.Message, Param: e.Param, Code: e.Code, Run: e.Run,
			RetryAfter: e.RetryAfter, Queued: e.Queued}
	}
	if called.Recheck != nil {
		if err := called.Recheck(r.Context(), key, answer.Body); err != nil {
			w.Header().Del("Idempotent-Replayed")
			return err
		}
	}
	h := w.Header()
	for name, values := range answer.Header {
		h[name] = values
	}
	if first.APIKey != key.ID {
		answer.Body = shownSecret.ReplaceAll(answer.Body, []byte(`"$1":"****$2"`))
		h.Del("Content-Length") // it was the length with the secrets
	}
	w.WriteHeader(first.Status)
	_, _ = w.Write(answer.Body)
	return nil
}

// CurrentKey returns who makes a long request, as the configuration says now: the session of a Call, otherwise the API
// key. The error is config.ErrLease while this node cannot confirm it, otherwise the 401.
func CurrentKey(keys Configuration, r *http.Request) (*config.Key, error) {
	if check := config.SessionCheck(r.Context()); check != nil {
		key, err := check()
		if _, answered := errors.AsType[*web.Error](err); err != nil && !answered && !errors.Is(err, config.ErrLease) {
			err = &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
				Message: "the session has ended; sign in again", Err: err}
		}
		return key, err
	}
	text, _ := web.Bearer(r)
	key, err := keys.Authenticate(text)
	if err != nil && !errors.Is(err, config.ErrLease) {
		err = errInvalidKey()
	}
	return key, err
}

const (
	// IdempotencyHeader has the key of a POST.
	IdempotencyHeader = "Idempotency-Key"
	// UnavailableHeader has the value acceptAnyway to let a send be stored while Idempotency-Keys cannot be checked.
	UnavailableHeader = "Idempotency-Unavailable"
	acceptAnyway      = "accept"
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
	if given := r.Header[UnavailableHeader]; given != nil && (len(given) > 1 || given[0] != acceptAnyway) {
		return "", web.Invalid(UnavailableHeader, "must be %q, or not be sent", acceptAnyway)
	}
	return values[0], nil
}

// ValidIdempotencyKey reports whether a text may be an Idempotency-Key.
func ValidIdempotencyKey(key string) bool {
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	return key != "" && len(key) <= MaxIdempotencyKey && !strings.ContainsFunc(key, unprintable)
}

// errKeysUnavailable is the 503 of a send whose Idempotency-Key cannot be checked.
func errKeysUnavailable() error {
	return web.ServiceUnavailable(nil, "Idempotency-Keys cannot be checked at the moment, and nothing was stored; send "+
		"it again with the same key, or with "+UnavailableHeader+": accept if it may be stored twice")
}

// AcceptsWithoutClaim decides what becomes of a send whose Idempotency-Key was not claimed: it returns nil if the
// client prefers an event that may be stored twice, or if this cluster keeps no keys.
func AcceptsWithoutClaim(r *http.Request, state claim.State) error {
	if state == claim.Off || r.Header.Get(UnavailableHeader) == acceptAnyway {
		return nil
	}
	return errKeysUnavailable()
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

// isKeyOptional reports whether a call is made without its key when there is little room for answers: keys of tenants
// must not take that of the account.
func isKeyOptional(called *Route, key *config.Key) bool {
	return called.KeyOptional || key.Tenant != ""
}
