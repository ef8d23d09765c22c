package events

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// maxPooledBody bounds the buffers that are kept for later requests, in bytes.
const maxPooledBody = 64 << 10

// parsedEvent is the validated body of a send.
type parsedEvent struct {
	eventType string
	data      []byte // the bytes in the body; syntax and depth are valid
	warnings  []frame.Warning
	mismatch  string // see event.Event
	refusal   error  // the 400, nil if the body is valid
	deliverAt time.Time
	expiresAt time.Time
}

// sendMembers are the members of a send.
var sendMembers = []string{"type", "data", "deliver_at", "expires_at"}

// maxDeliverAhead bounds how far ahead deliver_at may be.
const maxDeliverAhead = 30 * 24 * time.Hour

// errTooFar is the refusal of a deliver_at that a later repeat may have. So it is not remembered.
var errTooFar = errors.New("deliver_at is too far ahead")

// sender accepts events of the account's own applications, single or in batches, and test events.
type sender struct {
	*area
	claims claim.Claims // of Idempotency-Keys
	// bodies pools *bytes.Buffer for request bodies; a buffer is returned when nothing refers to it any more.
	bodies  sync.Pool
	batches *batchSlots
}

func newSender(of *area, takeOver time.Duration) *sender {
	return &sender{
		area: of,
		claims: claim.Claims{
			Store: of.LimiterStore, Now: of.Clock, Pause: frame.ClaimBackoff, Room: of.Waiting, TakeOver: takeOver,
			IsStored: func(ctx context.Context, account string, e id.ID) (bool, error) {
				_, err := of.Events.Event(ctx, account, e)
				if errors.Is(err, event.ErrNotFound) {
					return false, nil
				}
				return err == nil, err
			},
		},
		bodies:  sync.Pool{New: func() any { return new(bytes.Buffer) }},
		batches: newBatchSlots(),
	}
}

// sendEvent stores one event. The answer to a first call needs no read from the store: it shows the event as it was
// accepted, before any delivery.
func (a *sender) sendEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	ep, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	repeatable, err := frame.IdempotencyKey(r)
	if err != nil {
		return err
	}
	if err := web.CheckContentType(r); err != nil {
		return err
	}
	buf := a.bodies.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= maxPooledBody {
			a.bodies.Put(buf)
		}
	}()
	if err := web.ReadBody(r, buf, a.MaxBody); err != nil {
		return err
	}
	s := parseSend(buf.Bytes())
	a.checkNow(ep, &s, "", new(int))
	if s.refusal != nil && (repeatable == "" || errors.Is(s.refusal, errTooFar)) {
		return s.refusal
	}
	return a.answerSend(w, r, ep, repeatable, buf.Bytes(), &s, func(d id.ID) (wire.EventRow, error) {
		return a.acceptSent(r, ep, d, &s)
	})
}

// answerSend stores the event that accept builds with a new id, at most once for an Idempotency-Key, and answers
// with its row.
func (a *sender) answerSend(w http.ResponseWriter, r *http.Request, ep *config.Endpoint, key string, body []byte,
	s *parsedEvent, accept func(id.ID) (wire.EventRow, error)) error {
	d, err := a.IDs.New(ep.Partition)
	if err != nil {
		return acceptError(err)
	}
	var row wire.EventRow
	if key == "" {
		row, err = accept(d)
	} else {
		row, err = a.newIdempotentSend(r, ep, key, body, d).send(w, r, s.refusal, accept)
	}
	if err != nil {
		return acceptError(err)
	}
	return web.Answer(w, http.StatusAccepted, struct {
		wire.EventRow
		Warnings []frame.Warning `json:"warnings,omitempty"`
	}{row, s.warnings})
}

func errDisabled() error {
	return web.WrongState("", "the endpoint is disabled; enable it to send events")
}

// errRefusedBefore is the answer to a repeat that is valid now, of a request that was refused: the endpoint was
// enabled, the schema changed or time passed since.
func errRefusedBefore() error {
	return web.WrongState("", "the first request with this Idempotency-Key was refused: the endpoint was disabled, or "+
		"the event did not match its schema or was not in time; send it again with a new key")
}

func isDisabled(err error) bool {
	e, ok := errors.AsType[*web.Error](err)
	return ok && e.Type == web.InvalidState
}

// acceptSent stores the event and returns its row. Its errors are those of Accepter.
func (a *sender) acceptSent(r *http.Request, ep *config.Endpoint, d id.ID, s *parsedEvent) (wire.EventRow, error) {
	e := newSentEvent(r, ep, d, s)
	// It continues when the client leaves: the event is complete.
	if err := a.Accept.Accept(context.WithoutCancel(r.Context()), e, ep); err != nil {
		return wire.EventRow{}, err
	}
	return acceptedRow(e), nil
}

// acceptError returns a 503 for every error of accepting an event: the event is valid, so the log failed. Package
// ingest counts the causes; a log line for each event of an outage would not help. Errors that are already API
// errors stay.
func acceptError(err error) error {
	if _, decided := errors.AsType[*web.Error](err); decided {
		return err
	}
	if errors.Is(err, stream.ErrNotStored) || errors.Is(err, id.ErrClock) {
		return web.ServiceUnavailable(nil, "the log accepts no events at the moment; nothing was stored, try again later")
	}
	return web.ServiceUnavailable(
		nil, "the log did not confirm the event: it may or may not have been stored; look for the event "+
			"before you send it again")
}

// parseSend parses and validates {type, data}.
func parseSend(body []byte) (s parsedEvent) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	members, err := web.ParseObject(make([]web.Member, 0, 4), body)
	if err != nil {
		return parsedEvent{refusal: web.InvalidJSON("", err)}
	}
	for _, m := range members {
		switch m.Name {
		case "type", "data", "deliver_at", "expires_at":
		case "id":
			s.refusal = web.Invalid("id", "is assigned by the service; remove it, and send an Idempotency-Key to make "+
				"repeats safe")
			return s
		default:
			if len(s.warnings) < frame.MaxUnknownMembers {
				s.warnings = append(s.warnings, frame.UnknownMember(m.Name, m.Name, sendMembers))
			}
		}
	}
	s.validate(members)
	return s
}

// checkNow checks what may differ when the event is sent again: the schema, the time and the state of the endpoint. Its
// parameters are those of match.
func (a *sender) checkNow(ep *config.Endpoint, s *parsedEvent, path string, spent *int) {
	a.match(ep, s, path, spent)
	a.checkTimes(s)
	if s.refusal == nil && !ep.Enabled {
		s.refusal = errDisabled()
	}
}

// checkTimes compares deliver_at and expires_at with the clock.
func (a *sender) checkTimes(s *parsedEvent) {
	now := a.Clock()
	ahead := min(maxDeliverAhead, time.Duration(a.RetentionDays)*24*time.Hour)
	switch {
	case s.refusal != nil:
	case s.deliverAt.After(now.Add(ahead)):
		e := web.Invalid("deliver_at", "must be at most %d days ahead", int(ahead/(24*time.Hour)))
		e.Err = errTooFar
		s.refusal = e
	case !s.expiresAt.IsZero() && !s.expiresAt.After(now):
		s.refusal = web.Invalid("expires_at", "must be in the future")
	case !s.expiresAt.IsZero() && !s.expiresAt.After(s.deliverAt):
		s.refusal = web.Invalid("expires_at", "must be after deliver_at")
	}
}

// timeMember reads a time; null means none.
func (s *parsedEvent) timeMember(m web.Member) (at time.Time) {
	if frame.KindOf(m.Value) == frame.KindNull {
		return at
	}
	text := ""
	if frame.KindOf(m.Value) == frame.KindString {
		text, _ = web.DecodeString(m.Value)
	}
	at, ok := web.ParseTime(text)
	if !ok && s.refusal == nil {
		s.refusal = web.Invalid(m.Name, "must be a time such as 2026-08-21T22:24:36Z")
	}
	return at
}

// validate reads and validates the members.
func (s *parsedEvent) validate(members []web.Member) {
	var kind []byte
	for _, m := range members {
		switch m.Name {
		case "type":
			kind = m.Value
		case "data":
			s.data = m.Value
		case "deliver_at":
			s.deliverAt = s.timeMember(m)
		case "expires_at":
			s.expiresAt = s.timeMember(m)
		}
	}
	if frame.KindOf(kind) == frame.KindString {
		s.eventType, _ = web.DecodeString(kind) // after an error it is empty, which is not a valid type
	}
	switch {
	case s.refusal != nil:
	case kind == nil:
		s.refusal = web.Invalid("type", "is required")
	case !event.ValidType(s.eventType):
		s.refusal = web.Invalid("type", event.TypeRule)
	case s.data == nil:
		s.refusal = web.Invalid("data", "is required")
	case frame.KindOf(s.data) != frame.KindObject:
		s.refusal = web.Invalid("data", "must be an object")
	}
}

// match compares the data of a valid event with the schema of its type, if the endpoint says so. path is the place of
// the event in the request; spent is shared by the events of the request.
func (a *sender) match(ep *config.Endpoint, s *parsedEvent, path string, spent *int) {
	if ep.Validation == config.ValidateOff || s.refusal != nil {
		return
	}
	m := a.Config.Mismatch(ep, s.eventType, s.data, spent)
	if m == nil {
		return
	}
	param := "data"
	for _, name := range m.Path {
		if _, err := strconv.Atoi(name); err == nil {
			param += "[" + name + "]"
		} else {
			param = web.JoinPath(param, name)
		}
	}
	param = web.TruncateParam(param)
	message := fmt.Sprintf("does not match version %d of the schema of %s at %q: %s", m.Version, s.eventType,
		web.TruncateParam(m.Pointer), m.Message)
	if ep.Validation == config.ValidateReject {
		s.refusal = web.Invalid(param, "%s", message)
		return
	}
	s.mismatch = m.Text()
	s.warnings = append(s.warnings, frame.Warning{Param: web.JoinPath(path, param), Message: message})
}

// newSentEvent builds the event; its envelope is its body from now on.
func newSentEvent(r *http.Request, ep *config.Endpoint, d id.ID, s *parsedEvent) *event.Event {
	template := newEventTemplate(r, ep)
	template.IdempotencyKey = r.Header.Get(frame.IdempotencyHeader)
	return template.newEvent(d, s)
}

// eventTemplate holds what all events of one request have in common.
type eventTemplate struct{ event.Event }

func newEventTemplate(r *http.Request, ep *config.Endpoint) eventTemplate {
	e := event.Event{
		Account: ep.Account, Endpoint: ep.ID, Source: event.SourceAPI, Verdict: event.VerdictUnverified,
		Method:   http.MethodPost,
		RemoteIP: web.InfoOf(r).Client, Dests: ep.EnabledDestinations(), Header: keptHeaders(r.Header),
		Trace: r.Header.Get("Traceparent"), // of the caller, until the event is accepted
	}
	if len(e.Dests) == 0 {
		e.Reason = event.NoDestination
	}
	e.SkipIfLoop(ep.ID)
	return eventTemplate{e}
}

// newEvent returns an event of the request with its id, type and body.
func (x eventTemplate) newEvent(d id.ID, s *parsedEvent) *event.Event {
	e := x.Event
	e.Mismatch = s.mismatch
	e.ID, e.Type, e.Body = d, s.eventType, appendEnvelope(nil, d, s.eventType, s.data)
	e.DeliverAt, e.ExpiresAt = s.deliverAt, s.expiresAt
	return &e
}

// dataMember begins the last member of an envelope. It cannot occur earlier, because ids and times contain no quotes,
// and those of types are escaped.
const dataMember = `,"data":`

// appendEnvelope appends the body of a sent event. It copies data byte for byte.
func appendEnvelope(dst []byte, d id.ID, kind string, data []byte) []byte {
	const fixed = len(`{"id":"","type":"","timestamp":"`+dataMember+`"}`) + len(id.Event) + 26 + len(web.TimeFormat)
	if dst == nil {
		dst = make([]byte, 0, fixed+len(kind)+len(data))
	}
	dst = append(dst, `{"id":"`+id.Event...)
	dst = d.Append(dst)
	dst = append(dst, `","type":`...)
	dst = strconv.AppendQuote(dst, kind) // JSON, because a type has no character that cannot be seen
	dst = append(dst, `,"timestamp":"`...)
	dst = d.Time().AppendFormat(dst, web.TimeFormat)
	dst = append(dst, '"')
	dst = append(dst, dataMember...)
	dst = append(dst, data...)
	return append(dst, '}')
}

// keptHeaders returns the request headers that are stored with the event: content type, user agent, the client's own
// X- headers and the loop headers. Authorization and cookies are not stored.
func keptHeaders(h http.Header) []event.Field {
	fields := make([]event.Field, 0, 4)
	if h["Content-Type"] == nil {
		fields = append(fields, event.Field{Name: "Content-Type", Value: "application/json"})
	}
	for name, values := range h {
		own := strings.HasPrefix(name, "X-") && !transportHeader(name)
		if name != "Content-Type" && name != "User-Agent" && !own && !frame.LoopHeader(name) {
			continue
		}
		for _, v := range values {
			fields = append(fields, event.Field{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(fields, func(a, b event.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// transportHeader reports whether an X- header is written by proxies or is an idempotency key.
func transportHeader(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" || name == "X-Idempotency-Key"
}

// acceptedRow returns the list row of an event that was just stored.
func acceptedRow(e *event.Event) wire.EventRow {
	deliveries, reason, next := make([]event.Delivery, len(e.Dests)), event.Queued, time.Time{}
	if e.DeliverAt.After(e.ReceivedAt()) {
		reason, next = event.Scheduled, e.DeliverAt
	}
	for i, dest := range e.Dests {
		deliveries[i] = event.Delivery{Destination: dest, Status: event.Pending, Reason: reason, NextAttemptAt: next}
	}
	s := event.Summary{
		ID: e.ID, Account: e.Account, Endpoint: e.Endpoint, Type: e.Type, Status: event.Pending, Reason: reason,
		NextAttemptAt: next, Source: e.Source, Proof: e.Proof(),
		Counts:     event.Counts{Total: len(e.Dests), Pending: len(e.Dests)},
		Processing: event.ProcessingNone, Size: len(e.Body), Deliveries: deliveries,
	}
	if len(e.Dests) == 0 {
		s.Status, s.Reason, s.NextAttemptAt = event.Skipped, e.Reason, time.Time{}
	}
	return rowOf(&s)
}

// idempotentSend is one send under an Idempotency-Key. The first call claims the key, stores the event and marks the
// claim as stored. A repeat is answered with the event's current row. A refusal is remembered as well: a repeat has the
// same body, so it is validated again and gets the same 400. While the limiter store is unavailable a send is refused,
// unless its client prefers an event that may be stored twice.
type idempotentSend struct {
	sender   *sender
	request  *claim.Request // its note is the base64 SHA-256 of the body, after refusedMark if the answer was 400
	endpoint *config.Endpoint
	ofTenant bool // the path names a tenant, not the endpoint
	// outlived is the key of a claim that belongs to an endpoint that the tenant no longer has; empty: there is none.
	outlived string
}

// refusedMark begins the note of a claim whose request was answered 400.
const refusedMark = "!"

func (a *sender) newIdempotentSend(
	r *http.Request, ep *config.Endpoint, key string, body []byte, d id.ID) *idempotentSend {
	sum := sha256.Sum256(body)
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	return &idempotentSend{sender: a, endpoint: ep, ofTenant: web.InfoOf(r).Vars["tenant"] != "", request: &claim.Request{
		Account: ep.Account, Key: strings.Join([]string{"idempotency", ep.Account, r.URL.Path, key}, "\x00"),
		Event: d, Note: hash, Size: 1, Window: frame.IdempotencyWindow,
		Differs: func(note string) bool { return strings.TrimPrefix(note, refusedMark) != hash },
	}}
}

// send stores the event with accept, unless refusal is set, and returns its row. For a repeat it returns the result
// of the first call.
func (o *idempotentSend) send(w http.ResponseWriter, r *http.Request, refusal error,
	accept func(id.ID) (wire.EventRow, error)) (wire.EventRow, error) {
	held, err := o.claim(r.Context(), true)
	if err != nil {
		return wire.EventRow{}, err
	}
	switch held.State {
	case claim.Stored:
		return o.answerRepeat(w, r, refusal, held)
	case claim.Unavailable, claim.Off:
		if err := o.acceptUnclaimed(r, held.State); err != nil {
			return wire.EventRow{}, err
		}
		frame.SetIdempotencyUnavailable(w)
		if refusal != nil {
			return wire.EventRow{}, refusal
		}
		return accept(o.request.Event)
	}
	if refusal != nil {
		o.refuse(w, r)
		return wire.EventRow{}, refusal
	}
	row, err := accept(o.request.Event)
	if !o.finish(r.Context(), err) {
		frame.SetIdempotencyUnavailable(w)
	}
	return row, err
}

// acceptUnclaimed returns the 503 of a send that was not claimed; nil if it is accepted nevertheless.
func (o *idempotentSend) acceptUnclaimed(r *http.Request, state claim.State) error {
	err := frame.AcceptsWithoutClaim(r, state)
	if err != nil { // the claim may have been made, though its answer came too late
		o.release(r.Context())
	}
	return err
}

// release frees the key: nothing was stored.
func (o *idempotentSend) release(ctx context.Context) {
	_ = o.sender.claims.Finish(ctx, o.request, stream.ErrNotStored)
}

// refuse remembers that the first call was answered 400.
func (o *idempotentSend) refuse(w http.ResponseWriter, r *http.Request) {
	o.request.Note = refusedMark + o.request.Note
	if !o.finish(r.Context(), nil) {
		frame.SetIdempotencyUnavailable(w)
	}
}

// finish records the result of the first call, and reports whether repeats will find it. The event is stored anyway.
func (o *idempotentSend) finish(ctx context.Context, result error) (remembered bool) {
	err := o.sender.claims.Finish(ctx, o.request, result)
	if q := o.request; result == nil && err == nil && o.outlived != "" {
		err = o.sender.claims.Store.MarkStored(context.WithoutCancel(ctx), o.outlived, q.Event, q.Note, q.Window)
	}
	return err == nil
}

// claim claims the key, and waits for another call with the same key and body unless wait is false.
func (o *idempotentSend) claim(ctx context.Context, wait bool) (claim.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, frame.IdempotencyWait)
	defer cancel()
	begin := o.sender.claims.Begin
	if !wait {
		begin = o.sender.claims.Try
	}
	held := begin(ctx, o.request)
	if held.State == claim.Stored && o.isOutlived(ctx, held.Event) {
		o.outlived = o.request.Key
		o.request.Key += "\x00" + o.endpoint.ID
		held = begin(ctx, o.request)
	}
	switch {
	case (held.State == claim.Pending || held.State == claim.Stored) && o.request.Differs(held.Note):
		return held, frame.ErrOtherBody()
	case held.State == claim.Pending:
		return held, frame.ErrStillRunning()
	}
	return held, nil
}

// maxSkew is how far clocks of nodes may differ from the configuration's: an event may have an id that is older than
// its endpoint.
const maxSkew = id.MaxAhead + 5*time.Second

// isOutlived reports whether a claim belongs to an earlier endpoint of the tenant, or to a deleted tenant of the same
// name. If the event's endpoint cannot be read, the time says so.
func (o *idempotentSend) isOutlived(ctx context.Context, event id.ID) bool {
	age := event.Time().Sub(o.endpoint.CreatedAt)
	if !o.ofTenant || age > maxSkew {
		return false
	}
	endpoint, err := o.sender.EventEndpoint(ctx, o.endpoint.Account, event)
	if err != nil {
		return age < -maxSkew
	}
	return endpoint != o.endpoint.ID
}

// answerRepeat returns the result of the first call: its 400, or the current row of its event.
func (o *idempotentSend) answerRepeat(w http.ResponseWriter, r *http.Request, refusal error, first claim.Claim) (
	wire.EventRow, error) {
	if strings.HasPrefix(first.Note, refusedMark) {
		w.Header().Set("Idempotent-Replayed", "true")
		if refusal == nil {
			refusal = errRefusedBefore()
		}
		return wire.EventRow{}, refusal
	}
	d, err := o.sender.Events.Event(r.Context(), o.request.Account, first.Event)
	if err != nil {
		return wire.EventRow{}, web.FromError(frame.ToWebError(err))
	}
	frame.SetAsOf(w, d.AsOf)
	w.Header().Set("Idempotent-Replayed", "true")
	return rowOf(&d.Summary), nil
}
