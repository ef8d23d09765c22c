package events

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

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
	// maxBatchClaims bounds the keys that are claimed at the same time: four batches together have no more than the
	// limiter has connections. maxBatchWaits bounds those that wait for another call.
	maxBatchClaims, maxBatchWaits = 8, 64
)

// batchItem is one event of a batch and the result of storing it.
type batchItem struct {
	parsedEvent
	raw        []byte // the item as it was sent
	wellFormed bool   // an earlier call may have stored it, whatever refuses it now
	key        string // idempotency key; empty = none
	id         id.ID  // zero until the event is stored
	status     event.Status
	err        error
	repeated   bool            // the key was used before: read the status of that event
	event      *event.Event    // to be stored
	claim      *idempotentSend // of the key
	claimed    bool            // the claim is this call's, which must finish it
	waits      bool            // for another call that has the key
}

// batch is one POST …/events/batch.
type batch struct {
	sender   *sender
	r        *http.Request
	ep       *config.Endpoint
	template eventTemplate
	items    []batchItem
	warnings []frame.Warning
	spent    int         // on checks against schemas
	forgets  atomic.Bool // the limiter store failed or there is none: repeats may not be recognised
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
	if repeatable != "" {
		return b.storeIdempotent(w, repeatable, body.Bytes(), refusal)
	}
	if refusal = cmp.Or(refusal, b.checkHeaders()); refusal != nil {
		return refusal
	}
	return b.answer(w, b.store())
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

// checkHeaders bounds what the headers of the request take: they are stored with each of its events.
func (b *batch) checkHeaders() error {
	size := 0
	for _, f := range b.template.Header {
		size += len(f.Name) + len(f.Value)
	}
	if size*len(b.items) > maxBatchBody {
		return web.Invalid("", "the request has %d bytes of headers that are stored with each event, such as X- headers; "+
			"with %d events that is more than 5 MiB: send fewer events, or smaller headers", size, len(b.items))
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
	x.wellFormed = x.refusal == nil
	b.sender.checkNow(b.ep, &x.parsedEvent, path, &b.spent)
	b.warnings = append(b.warnings, x.warnings[:min(len(x.warnings), max(0, frame.MaxUnknownMembers-len(b.warnings)))]...)
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
	held, err := o.claim(b.r.Context(), true)
	if err != nil {
		return err
	}
	if err := b.checkHeaders(); err != nil && held.State != claim.Stored { // the key is bound to the body alone
		o.release(b.r.Context())
		return err
	}
	switch {
	case held.State == claim.Stored:
		w.Header().Set("Idempotent-Replayed", "true")
		if wasRefused := strings.HasPrefix(held.Note, refusedMark); wasRefused && refusal == nil {
			return errRefusedBefore()
		}
	case held.State == claim.Unavailable, held.State == claim.Off:
		if err := o.acceptUnclaimed(b.r, held.State); err != nil {
			return err
		}
		b.forgets.Store(true)
	case refusal != nil:
		o.refuse(w, b.r)
	}
	if refusal != nil {
		if b.forgets.Load() {
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
		if !o.finish(b.r.Context(), nil) {
			frame.SetIdempotencyUnavailable(w)
		}
	case isDisabled(err) && !b.forgets.Load():
		o.refuse(w, b.r)
	default: // a repeat stores what is missing: each item has a claim of its own
		o.release(b.r.Context())
	}
	return b.answer(w, err)
}

// answer writes one result for each item, in the order of the request.
func (b *batch) answer(w http.ResponseWriter, err error) error {
	if b.forgets.Load() {
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
	return web.Answer(w, http.StatusAccepted, out)
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

const (
	// maxBatchBodies bounds the batches that this node holds in memory, maxBatches those that it stores at the same
	// time: four fit into the queue of one partition. A slow sender occupies a body slot only, never a storing slot.
	maxBatchBodies, maxBatches = 32, 4
	// maxBatchBodiesOfKey bounds the batches of one API key, so that the slow senders of one application leave room for
	// other applications.
	maxBatchBodiesOfKey = maxBatchBodies / 2
	// batchWait is how long a batch waits for a free slot before it is refused with 429.
	batchWait = 5 * time.Second
)

// batchSlots bounds the batches of this node by what they occupy: memory and the queues of the log.
type batchSlots struct {
	bodies, storing chan struct{} // an element for each batch

	mu   sync.Mutex // guards what follows
	keys map[string]*keySlots
}

// keySlots are the batches of one API key. It is deleted with the last of them.
type keySlots struct {
	bodies  chan struct{}
	batches int // in bodies, or waiting
}

func newBatchSlots() *batchSlots {
	return &batchSlots{bodies: make(chan struct{}, maxBatchBodies), storing: make(chan struct{}, maxBatches),
		keys: map[string]*keySlots{}}
}

// enterBody waits for room for the body of a batch, first among those of the same key. Call leave once.
func (s *batchSlots) enterBody(ctx context.Context, key string) (leave func(), err error) {
	s.mu.Lock()
	of := s.keys[key]
	if of == nil {
		of = &keySlots{bodies: make(chan struct{}, maxBatchBodiesOfKey)}
		s.keys[key] = of
	}
	of.batches++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.batches--; of.batches == 0 {
			delete(s.keys, key)
		}
	}
	if err := acquireBatchSlot(ctx, of.bodies, "with this API key"); err != nil {
		forget()
		return nil, err
	}
	if err := acquireBatchSlot(ctx, s.bodies, "on this node"); err != nil {
		<-of.bodies
		forget()
		return nil, err
	}
	return func() {
		<-s.bodies
		<-of.bodies
		forget()
	}, nil
}

// enterStoring waits for room to store a batch. Call leave once.
func (s *batchSlots) enterStoring(ctx context.Context) (leave func(), err error) {
	if err := acquireBatchSlot(ctx, s.storing, "on this node"); err != nil {
		return nil, err
	}
	return func() { <-s.storing }, nil
}

// acquireBatchSlot waits up to batchWait for a free slot. The caller receives from slots to free it.
func acquireBatchSlot(ctx context.Context, slots chan struct{}, where string) error {
	timeout := time.NewTimer(batchWait)
	defer timeout.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timeout.C:
	case <-ctx.Done(): // the client has left; nobody reads the answer
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: strconv.Itoa(cap(slots)) + " batches are already being processed " + where +
			"; nothing was stored, send the batch again"}
}

// store stores the valid items. It returns an error only when none is stored, because the endpoint is disabled or the
// log accepted none of them.
func (b *batch) store() error {
	// Storing continues when the client leaves: the events are complete.
	ctx := context.WithoutCancel(b.r.Context())
	repeats := b.claimKeys(ctx)
	b.storeClaimed(ctx)
	b.storeWaiting(ctx)
	b.readStatuses(ctx)
	for i, first := range repeats {
		b.copyResult(&b.items[i], &b.items[first])
	}
	var unavailable, running error
	for i := range b.items {
		x := &b.items[i]
		if !x.id.IsZero() {
			return nil
		}
		switch e, _ := errors.AsType[*web.Error](x.err); {
		case e == nil:
		case e.Status == http.StatusServiceUnavailable:
			unavailable = x.err
		case e.Status == http.StatusTooManyRequests: // another call may store it
			running = x.err
		}
	}
	if !b.ep.Enabled {
		return cmp.Or(unavailable, running, errDisabled())
	}
	return unavailable
}

func (x *batchItem) setResult(e *event.Event, err error) {
	if err != nil {
		x.err = acceptError(err)
		return
	}
	x.id, x.status = e.ID, event.Pending
	if len(e.Dests) == 0 {
		x.status = event.Skipped
	}
}

// claimKeys gives the items their ids, in their order, and claims the keys of those that have one, many at the same
// time. It does not wait for other calls, which may wait for this one. An item that is refused now may be the repeat of
// one that was stored. It returns the items whose key an earlier item of the batch uses, as index → index of that item.
func (b *batch) claimKeys(ctx context.Context) map[int]int {
	repeats, firsts := map[int]int{}, map[string]int{}
	var g errgroup.Group
	g.SetLimit(maxBatchClaims)
	for i := range b.items {
		x := &b.items[i]
		if x.err != nil && (x.key == "" || !x.wellFormed) {
			continue
		}
		if first, ok := firsts[x.key]; ok && x.key != "" {
			repeats[i] = first
			continue
		}
		firsts[x.key] = i
		d, err := b.sender.IDs.New(b.ep.Partition)
		if err != nil {
			x.err = acceptError(err)
			continue
		}
		x.event = b.newItemEvent(x, d)
		if x.key != "" {
			x.claim = b.sender.newIdempotentSend(b.r, b.ep, x.key, x.raw, d)
			g.Go(func() error { b.claimKey(ctx, x, false); return nil })
		}
	}
	_ = g.Wait() // each item holds its own error
	return repeats
}

// newItemEvent builds the event of an item.
func (b *batch) newItemEvent(x *batchItem, d id.ID) *event.Event {
	e := b.template.newEvent(d, &x.parsedEvent)
	e.IdempotencyKey = x.key
	return e
}

// claimKey claims the key of an item. Afterwards an item with an event is to be stored, unless it waits for another
// call that has its key.
func (b *batch) claimKey(ctx context.Context, x *batchItem, wait bool) {
	held, err := x.claim.claim(ctx, wait)
	e, _ := errors.AsType[*web.Error](err)
	unclaimed := held.State == claim.Unavailable || held.State == claim.Off
	switch {
	case err != nil || !unclaimed:
	case wait: // another call had the key, and may have stored the event
		err = frame.ErrStillRunning()
	default:
		if err = x.claim.acceptUnclaimed(b.r, held.State); err == nil {
			b.forgets.Store(true)
		}
	}
	switch {
	case e != nil && e.Status == http.StatusTooManyRequests && !wait:
		x.waits = true
		return
	case err != nil:
		x.err = err
	case held.State == claim.Stored:
		x.id, x.status, x.repeated, x.err = held.Event, event.Pending, true, nil
	case x.err != nil: // it is checked again when it is repeated; the key stays free
		x.claim.release(ctx)
	default:
		if d := x.claim.request.Event; d != x.event.ID { // that of an earlier call, which did not store it
			x.event = b.newItemEvent(x, d)
		}
		x.claimed, x.waits = held.State == claim.New, false
		return
	}
	x.event, x.waits = nil, false
}

// storeClaimed stores the items that have an event and do not wait, in their order.
func (b *batch) storeClaimed(ctx context.Context) {
	items := make([]*batchItem, 0, len(b.items))
	for i := range b.items {
		if x := &b.items[i]; x.event != nil && !x.waits {
			items = append(items, x)
		}
	}
	b.storeItems(ctx, items...)
}

// storeItems stores the events of items and ends their claims.
func (b *batch) storeItems(ctx context.Context, items ...*batchItem) {
	if len(items) == 0 {
		return
	}
	events := make([]*event.Event, len(items))
	for i, x := range items {
		events[i], x.event = x.event, nil
	}
	var g errgroup.Group
	g.SetLimit(maxBatchClaims)
	for i, err := range b.sender.Accept.AcceptAll(ctx, events, b.ep) {
		x := items[i]
		if x.setResult(events[i], err); x.claimed {
			g.Go(func() error {
				if !x.claim.finish(ctx, err) {
					b.forgets.Store(true)
				}
				return nil
			})
		}
	}
	_ = g.Wait()
}

// storeWaiting stores the items whose key another call had, each as soon as it has the key: another batch may wait for
// it. All of them together wait for a limited time.
func (b *batch) storeWaiting(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, frame.IdempotencyWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxBatchWaits)
	for i := range b.items {
		if x := &b.items[i]; x.waits {
			g.Go(func() error {
				if b.claimKey(limited, x, true); x.event != nil {
					b.storeItems(ctx, x)
				}
				return nil
			})
		}
	}
	_ = g.Wait()
}

// readStatuses reads the current status of events that an earlier call stored. An event that cannot be read now is
// reported as pending.
func (b *batch) readStatuses(ctx context.Context) {
	var ids []id.ID
	for i := range b.items {
		if b.items[i].repeated {
			ids = append(ids, b.items[i].id)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.sender.Events.Summaries(ctx, b.ep.Account, ids)
	if err != nil {
		return
	}
	for i := range b.items {
		if row, ok := rows[b.items[i].id]; ok && b.items[i].repeated {
			b.items[i].status = row.Status
		}
	}
}

// copyResult gives an item the result of the earlier item in the batch that has the same key.
func (b *batch) copyResult(x, first *batchItem) {
	if sha256.Sum256(x.raw) != sha256.Sum256(first.raw) {
		x.err = &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: "idempotency_key",
			Message: "is used by another event of this batch with different content; give each event its own key"}
		return
	}
	if !first.id.IsZero() || x.err == nil { // otherwise it has a refusal of its own
		x.id, x.status, x.err = first.id, first.status, first.err
	}
}
