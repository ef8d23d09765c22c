package api

import (
	"bytes"
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

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// The durable form of the Idempotency-Key, for every POST but sends of events, in the configuration log. A call
// claims its key by a conditional record before it does anything, and writes its answer beside the claim before it
// is sent. So of calls on all nodes one does the work, and a repeat is answered as the first one was.
//
// A call whose node dies leaves its claim. After claimLife a repeat takes it over, and goes on where that cannot do
// the work twice: because what it makes has an id that both calls derive from the claim, or because doing it again
// changes nothing. Routes of which that is true say so in the table; of the others nobody can tell what has become
// of them, and the repeat is told so.

const (
	// claimLife is how long a call may take before it counts as dead: longer than any but a replay, whose run tells
	// whether it lives. What a call does that comes back to life later is as conditional as what the repeat does.
	claimLife = 30 * time.Second
	// maxRememberedAnswer bounds an answer that is remembered, compressed, in bytes: sealed and in base64 it is within
	// config.MaxEntity. Of a larger one only the status is.
	maxRememberedAnswer = 180 << 10
	// claimTimeout bounds the wait until an answer is remembered.
	claimTimeout = 10 * time.Second
)

// call is one call under an Idempotency-Key.
type call struct {
	claim     *config.Answer
	subject   id.ID // see config.Answer
	takenOver bool  // it has taken over from one that ended without an answer
}

type callKey struct{}

// callOf is the call of a request; nil without an Idempotency-Key.
func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call)
	return c
}

// newID is the id of what the request makes: every call under its key makes the same.
func newID(r *http.Request, prefix string) string {
	c := callOf(r)
	if c == nil {
		return id.Random(prefix)
	}
	sum := sha256.Sum256(append([]byte(prefix), c.subject[:]...))
	return id.ID(sum[:16]).Text(prefix)
}

// runID is newID for a run.
func (a *replays) runID(r *http.Request) (string, error) {
	if c := callOf(r); c != nil {
		return c.subject.Text(id.Run), nil
	}
	d, err := a.ids.New(0)
	return d.Text(id.Run), err
}

// repeatable says of a route whether its work may be done again under one claim, and of one whose callers lose
// nothing when a key is not remembered that it is spare. A route that is not named here is neither.
func idempotencyPolicy(path string) (resumable, optional bool) {
	switch path {
	case "/v1/events/{event}/processing":
		return true, true // the newest receipt counts, but for processed, which stays
	case "/v1/recoveries/{recovery}": // an action in effect changes nothing
		return true, false
	// what is made has an id from the claim
	case "/v1/endpoints", "/v1/endpoints/{endpoint}/destinations", "/v1/recoveries":
		return true, false
	case "/v1/replays", "/v1/events/{event}/replay": // so has the run, which is written first
		return true, false
	case pathOfDestination + "rotate_secret", "/v1/endpoints/{endpoint}/rotate-token":
		// the secret knows the claim that made it
		return true, false
	case pathOfDestination + "purge": // the moment is that of the claim
		return true, false
	}
	return false, false
}

const pathOfDestination = "/v1/endpoints/{endpoint}/destinations/{destination}/"

// repeats remembers what requests under an Idempotency-Key came to.
type idempotentCalls struct {
	*core
	answers Answers
	keyring *config.Keyring
	log     *slog.Logger
}

// remembered makes the handler of a route answer repeats.
func (a *idempotentCalls) withIdempotency(path string, next handlerFunc) handlerFunc {
	resumable, optional := idempotencyPolicy(path)
	return func(w http.ResponseWriter, r *http.Request, key *config.Key) error {
		text, err := idempotencyKey(r)
		if err != nil || text == "" {
			return next(w, r, key) // which judges it after the path
		}
		if err := a.checkPath(r, key); err != nil {
			return err
		}
		var body bytes.Buffer
		if err := web.ReadBody(r, &body, a.maxBody); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body.Bytes())), int64(body.Len())
		sum := sha256.Sum256(body.Bytes())
		c, err := a.claim(r, key, text, sum[:], resumable, optional)
		switch {
		// an upgrade is not at its end
		case errors.Is(err, config.ErrAnswersFull) && optional, errors.Is(err, config.ErrLevel):
			setIdempotencyUnavailable(w)
			return next(w, r, key)
		case errors.Is(err, config.ErrAnswersFull):
			return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: idempotencyHeader,
				RetryAfter: time.Minute,

				Message: "cannot be stored: Idempotency-Keys of the last 24 hours use all of their 64 MiB; nothing was done. " +
					"Repeat it later, or send it without the header"}
		case err != nil:
			return err
		case c.claim.Status != 0:
			return a.answerRepeat(w, key, c.claim)
		}
		return a.runFirst(w, r, key, c, resumable, next)
	}
}

// checkPath judges what stands in the path, as the handler will: before the body.
func (a *idempotentCalls) checkPath(r *http.Request, key *config.Key) error {
	var err error
	switch vars := web.InfoOf(r).Vars; {
	case vars["destination"] != "":
		_, _, err = a.destinationInPath(r, key)
	case vars["endpoint"] != "":
		_, err = a.endpointInPath(r, key)
	case vars["event"] != "":
		_, err = a.eventInPath(r)
	}
	return err
}

// claim returns the call that does the work, or the answer of an earlier one. It waits while another is running.
func (a *idempotentCalls) claim(r *http.Request, key *config.Key, text string, body []byte, resumable, optional bool) (
	*call, error) {
	subject, err := a.ids.New(0)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{key.Account, r.URL.Path, text}, "\x00")))
	mine := &config.Answer{
		Meta: config.Meta{ID: id.ID(sum[:16]).Text("ans_")}, BodyHash: body, IDSeed: subject.String(),
		CallID: id.Random("call_"), APIKey: key.ID,
		ClaimedUntil: a.now().Add(claimLife), ExpiresAt: a.now().Add(idempotencyWindow),
	}
	c := &call{}
	err = a.retryUntilDone(r.Context(), func() (done bool, err error) {
		c.claim, c.takenOver, err = a.tryClaim(r.Context(), mine, resumable, optional)
		if e, ok := errors.AsType[*web.Error](err); ok {
			return e.Status != http.StatusTooManyRequests, err
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	c.subject, err = id.Parse("", c.claim.IDSeed)
	return c, err
}

// tryClaim looks once who has the key.
func (a *idempotentCalls) tryClaim(ctx context.Context, mine *config.Answer, resumable, optional bool) (
	claim *config.Answer, takenOver bool, err error) {
	// Not with the caller's context: a claim of a caller that has left would only be in the way.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	held, err := a.answers.ClaimAnswer(ctx, mine, optional)
	switch {
	case err != nil:
		return nil, false, err
	case !bytes.Equal(held.BodyHash, mine.BodyHash):
		return nil, false, &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: idempotencyHeader,
			Message: "was sent before with another body; a new request needs a new key"}
	case held.Status != 0 || held.CallID == mine.CallID:
		return held, false, nil
	case a.now().Before(held.ClaimedUntil):
		return nil, false, errStillRunning()
	case !resumable:
		return nil, false, &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: idempotencyHeader,
			Message: "belongs to a request that ended without an answer: it may or may not have taken effect; check, and " +
				"send what is missing with a new key"}
	}
	held, err = a.answers.ChangeAnswer(ctx, mine.ID, func(x *config.Answer) error {
		if x.CallID == held.CallID && x.Status == 0 {
			x.CallID, x.APIKey, x.ClaimedUntil = mine.CallID, mine.APIKey, mine.ClaimedUntil
		}
		return nil
	})
	switch {
	case errors.Is(err, config.ErrNotFound): // swept, or given free
		return nil, false, errStillRunning()
	case err == nil && held.Status == 0 && held.CallID != mine.CallID: // another repeat was first
		return nil, false, errStillRunning()
	}
	return held, true, err
}

// kept is an answer as it is remembered: a body with its headers, or an error.
type rememberedAnswer struct {
	Header http.Header      `json:"header,omitempty"`
	Body   []byte           `json:"body,omitempty"` // to the byte
	Error  *rememberedError `json:"error,omitempty"`
}

// rememberedError is what a client sees of a web.Error but the request id: a repeat has its own.
type rememberedError struct {
	Type, Message, Param, Code, Run string
	RetryAfter                      time.Duration
	Queued                          int
}

// recorder takes the answer of a handler.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// first does the work of a claim, remembers what it came to, and answers.
func (a *idempotentCalls) runFirst(w http.ResponseWriter, r *http.Request, key *config.Key, c *call, resumable bool,
	next handlerFunc) error {
	recorded := &recorder{header: http.Header{}}
	err := toWebError(next(recorded, r.WithContext(context.WithValue(r.Context(), callKey{}, c)), key))
	status, answer := recorded.status, rememberedAnswer{Header: recorded.header, Body: recorded.body.Bytes()}
	if err != nil {
		e := web.From(err)
		status = e.Status
		answer = rememberedAnswer{Error: &rememberedError{
			Type: e.Type, Message: e.Message, Param: web.ShortParam(e.Param), Code: e.Code, Run: e.Run, RetryAfter: e.RetryAfter,
			Queued: e.Queued}}
	}
	if keepErr := a.remember(r, c, status, answer, resumable); keepErr != nil {
		// What was done is done. A repeat finds the claim.
		a.log.LogAttrs(r.Context(), slog.LevelWarn, "remember an answer", slog.String("route", web.InfoOf(r).Route),
			slog.Any("error", keepErr))
		setIdempotencyUnavailable(w)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	for name, values := range recorded.header {
		h[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(recorded.body.Bytes()) // a client that left cannot be told
	return nil
}

// keep remembers an answer, or gives the key free. Kept are successes, refusals, and whatever a run came to. After
// another error of ours the work may have been done, and so it may when the call took over from another: then the
// claim stays for the next repeat, which goes on with the same ids.
func (a *idempotentCalls) remember(
	r *http.Request, c *call, status int, answer rememberedAnswer, resumable bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), claimTimeout)
	defer cancel()
	e := answer.Error
	switch {
	case e == nil, e.Run != "", status == http.StatusBadRequest && e.Type != web.Conflict:
	case status >= http.StatusInternalServerError && resumable, c.takenOver:
		_, err := a.answers.ChangeAnswer(ctx, c.claim.ID, func(x *config.Answer) error {
			if x.CallID == c.claim.CallID {
				x.ClaimedUntil = time.Time{}
			}
			return nil
		})
		return err
	default:
		return a.answers.ReleaseClaim(ctx, c.claim)
	}
	sealed, err := a.seal(c.claim.ID, answer)
	if err != nil {
		return err
	}
	finish := func(with config.Sealed) error {
		_, err := a.answers.ChangeAnswer(ctx, c.claim.ID, func(x *config.Answer) error {
			if x.Status == 0 { // else a repeat that took over was quicker
				x.Status, x.Answer = status, with
			}
			return nil
		})
		return err
	}
	err = finish(sealed)
	if errors.Is(err, config.ErrAnswersFull) { // that it was done is kept always
		err = finish("")
	}
	return err
}

// seal returns what is kept of an answer; nothing of one that is too large.
func (a *idempotentCalls) seal(name string, answer rememberedAnswer) (config.Sealed, error) {
	raw, err := json.Marshal(answer)
	if err != nil {
		return "", fmt.Errorf("encode an answer: %w", err)
	}
	packed := s2.EncodeBetter(nil, raw)
	if len(packed) > maxRememberedAnswer {
		return "", nil
	}
	return a.keyring.SealString(name, config.FieldAnswer, string(packed)), nil
}

// shownSecret finds the signing secrets in an answer, and the last four characters of each.
var shownSecret = regexp.MustCompile(`"secret":"whsec_[^"]*([^"]{4})"`)

// answerRepeat is the answer of an earlier call. Whoever knows its Idempotency-Key and its body, which may be {}, can
// ask for it: secrets in it are shown again to the API key of that call only.
func (a *idempotentCalls) answerRepeat(w http.ResponseWriter, key *config.Key, first *config.Answer) error {
	w.Header().Set("Idempotent-Replayed", "true")
	if first.Answer == "" {
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: idempotencyHeader,
			Message: fmt.Sprintf("belongs to a request that took effect, answered %d; its answer was too large to be "+
				"repeated, read what it made", first.Status)}
	}
	packed, err := a.keyring.OpenString(first.ID, config.FieldAnswer, first.Answer)
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
	h := w.Header()
	for name, values := range answer.Header {
		h[name] = values
	}
	if first.APIKey != key.ID {
		answer.Body = shownSecret.ReplaceAll(answer.Body, []byte(`"secret":"****$1"`))
		h.Del("Content-Length") // of the answer with its secrets
	}
	w.WriteHeader(first.Status)
	_, _ = w.Write(answer.Body)
	return nil
}
