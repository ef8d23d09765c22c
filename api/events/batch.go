package events

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxBatch and maxBatchBody bound one batch: 1,000 events and 5 MiB.
	maxBatch, maxBatchBody = 1000, 5 << 20
	// maxBatchClaims bounds the items with an idempotency key that are stored at the same time.
	maxBatchClaims = 64
)

// batchItem is one event of a batch and the result of storing it.
type batchItem struct {
	parsedEvent
	raw      []byte // the item as it was sent
	key      string // idempotency key; empty = none
	id       id.ID  // zero until the event is stored
	status   event.Status
	err      error
	repeated bool // the key was used before: read the status of that event
}

// batch is one POST …/events/batch.
type batch struct {
	sender                 *sender
	r                      *http.Request
	ep                     *config.Endpoint
	template               eventTemplate
	items                  []batchItem
	warnings               []frame.Warning
	spent                  int  // on checks against schemas
	idempotencyUnavailable bool // the limiter store failed: repeats may not be recognised
}

// sendBatch stores up to 1,000 events. Each item is validated and stored on its own; only an error in the request
// itself refuses the whole batch.
func (a *sender) sendBatch(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	ep, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	repeatable, err := frame.IdempotencyKey(r)
	if err != nil {
		return err
	}
	lines, err := web.CheckBatchType(r)
	if err != nil {
		return err
	}
	leave, err := a.batches.enterBody(r.Context(), key.ID)
	if err != nil {
		return err
	}
	defer leave()
	var body bytes.Buffer
	if err := web.ReadBody(r, &body, maxBatchBody); err != nil {
		return err
	}
	done, err := a.batches.enterStoring(r.Context())
	if err != nil {
		return err
	}
	defer done()
	b := &batch{sender: a, r: r, ep: ep, template: newEventTemplate(r, ep)}
	if lines { // application/x-ndjson describes the request, not an event
		for i := range b.template.Header {
			if f := &b.template.Header[i]; f.Name == "Content-Type" {
				f.Value = "application/json"
			}
		}
	}
	refusal := b.parse(body.Bytes(), lines)
	if refusal == nil && !ep.Enabled {
		refusal = errDisabled()
	}
	if repeatable == "" {
		if refusal != nil {
			return refusal
		}
		return b.answer(w, b.store())
	}
	return b.storeIdempotent(w, repeatable, body.Bytes(), refusal)
}

// parse splits the body into items and validates each. It returns an error of the request as a whole.
func (b *batch) parse(body []byte, lines bool) error {
	raw, err := splitLines(body), error(nil)
	if !lines {
		raw, err = b.readEnvelope(body)
	}
	if err != nil {
		return err
	}
	if len(raw) == 0 || len(raw) > maxBatch {
		return errBatchSize()
	}
	b.items = make([]batchItem, len(raw))
	for i := range raw {
		x := &b.items[i]
		x.raw = raw[i]
		if b.parseItem(x, frame.Indexed("events", i)); x.refusal != nil {
			x.err = withParamPrefix(frame.Indexed("events", i), x.refusal)
		}
	}
	return nil
}

func (b *batch) warnUnknown(param, name string, known ...string) {
	if len(b.warnings) < frame.MaxUnknownMembers {
		b.warnings = append(b.warnings, frame.UnknownMember(param, name, known))
	}
}

// readEnvelope returns the raw events of {"events": […]}.
func (b *batch) readEnvelope(body []byte) ([][]byte, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	members, err := web.ParseEnvelope(body)
	if err != nil {
		return nil, web.InvalidJSON("", err)
	}
	var events []byte
	for _, m := range members {
		if m.Name == "events" {
			events = m.Value
			continue
		}
		b.warnUnknown(m.Name, m.Name, "events")
	}
	switch {
	case events == nil:
		return nil, web.Invalid("events", "is required")
	case frame.KindOf(events) != frame.KindArray:
		return nil, web.Invalid("events", "must be an array of 1 to %d events", maxBatch)
	}
	items, err := web.ParseEnvelopeArray(events, maxBatch)
	if _, many := errors.AsType[*web.LimitError](err); many {
		return nil, errBatchSize()
	}
	if err != nil {
		return nil, web.InvalidJSON("events", err)
	}
	return items, nil
}

func errBatchSize() error { return web.Invalid("events", "must have 1 to %d events", maxBatch) }

// splitLines returns the non-empty lines of NDJSON, at most maxBatch+1 of them.
func splitLines(body []byte) (out [][]byte) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
		if len(out) > maxBatch {
			break // the batch is refused anyway
		}
	}
	return out
}

// parseItem validates {type, data, idempotency_key?}; path is its place in the request, such as events[3].
func (b *batch) parseItem(x *batchItem, path string) {
	if maxBody := b.sender.MaxBody; int64(len(x.raw)) > maxBody {
		x.refusal = &web.Error{Status: http.StatusBadRequest, Type: web.PayloadTooLarge, Message: "is larger than " +
			strconv.FormatInt(maxBody, 10) + " bytes"}
		return
	}
	members, err := web.ParseObject(make([]web.Member, 0, 4), x.raw)
	if err != nil {
		x.refusal = web.InvalidJSON("", err)
		return
	}
	for _, m := range members {
		switch m.Name {
		case "type", "data", "deliver_at", "expires_at":
		case "idempotency_key":
			if x.refusal = x.setKey(m.Value); x.refusal != nil {
				return
			}
		case "id":
			x.refusal = web.Invalid("id", "is assigned by the service; remove it, and send an idempotency_key to make "+
				"repeats safe")
			return
		default:
			b.warnUnknown(web.JoinPath(path, m.Name), m.Name, append(sendMembers, "idempotency_key")...)
		}
	}
	x.validate(members)
	b.sender.match(b.ep, &x.parsedEvent, path, &b.spent)
	b.warnings = append(b.warnings, x.warnings[:min(len(x.warnings), max(0, frame.MaxUnknownMembers-len(b.warnings)))]...)
	b.sender.checkTimes(&x.parsedEvent)
}

// setKey reads the idempotency_key of an item; null means none.
func (x *batchItem) setKey(raw []byte) error {
	if frame.KindOf(raw) == frame.KindNull {
		return nil
	}
	if frame.KindOf(raw) == frame.KindString {
		x.key, _ = web.DecodeString(raw)
	}
	if !frame.ValidIdempotencyKey(x.key) {
		return web.Invalid("idempotency_key", "must be a string of 1 to %d printable ASCII characters",
			frame.MaxIdempotencyKey)
	}
	return nil
}

// withParamPrefix returns the error of an item with path in front of its parameter.
func withParamPrefix(path string, err error) error {
	e, ok := errors.AsType[*web.Error](err)
	if !ok {
		return err
	}
	prefixed := *e
	if prefixed.Param = path; e.Param != "" {
		prefixed.Param = web.JoinPath(path, e.Param)
	}
	prefixed.Message = strings.TrimPrefix(prefixed.Message, "the body ")
	return &prefixed
}

// storeIdempotent stores a batch under an Idempotency-Key. The key is bound to the first body. An item without its
// own key uses the request's key and its index, so a repeat stores what the first call could not, and nothing twice.
func (b *batch) storeIdempotent(w http.ResponseWriter, key string, body []byte, refusal error) error {
	d, err := b.sender.IDs.New(b.ep.Partition)
	if err != nil {
		return err
	}
	o := b.sender.newIdempotentSend(b.r, b.ep, key, body, d)
	o.request.Key += "\x00" // keeps the batch's key apart from the keys of items, which contain no NUL
	held, err := o.claim(b.r.Context())
	if err != nil {
		return err
	}
	switch {
	case held.State == claim.Stored:
		w.Header().Set("Idempotent-Replayed", "true")
		// the endpoint was disabled at the first call
		if wasRefused := strings.HasPrefix(held.Note, refusedMark); wasRefused && refusal == nil {
			return errDisabled()
		}
	case held.State == claim.Unavailable:
		b.idempotencyUnavailable = true
	case refusal != nil:
		o.refuse(w, b.r)
	}
	if refusal != nil {
		if b.idempotencyUnavailable {
			frame.SetIdempotencyUnavailable(w)
		}
		return refusal
	}
	for i := range b.items {
		if b.items[i].key == "" {
			b.items[i].key = key + "/" + strconv.Itoa(i)
		}
	}
	err = b.store()
	switch {
	case held.State != claim.New:
	case err == nil:
		o.finish(w, b.r, nil)
	default: // a repeat stores what is missing: each item has a claim of its own
		b.sender.claims.Store.Release(context.WithoutCancel(b.r.Context()), o.request.Key, d)
	}
	return b.answer(w, err)
}

// answer writes one result for each item, in the order of the request.
func (b *batch) answer(w http.ResponseWriter, err error) error {
	if b.idempotencyUnavailable {
		frame.SetIdempotencyUnavailable(w)
	}
	if err != nil {
		return err
	}
	out := wire.EventBatchResult{Data: make([]wire.BatchItem, len(b.items)), Warnings: b.warnings}
	for i := range b.items {
		x, v := &b.items[i], &out.Data[i]
		v.Index = i
		if x.err == nil {
			v.ID, v.Status = x.id.Text(id.Event), x.status
			continue
		}
		view := web.ViewOf(b.r, itemError(i, x.err))
		v.Error = &view
	}
	web.WriteJSON(w, http.StatusAccepted, out)
	return nil
}

// itemError returns the error of an item with its position in the request.
func itemError(i int, err error) *web.Error {
	path := frame.Indexed("events", i)
	e := *web.FromError(frame.ToWebError(err))
	switch {
	case e.Param == frame.IdempotencyHeader:
		e.Param = web.JoinPath(path, "idempotency_key")
	case !strings.HasPrefix(e.Param, path):
		e.Param = strings.TrimSuffix(web.JoinPath(path, e.Param), ".")
	}
	return &e
}
