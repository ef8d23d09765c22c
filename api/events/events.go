package events

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// events serves stored events and their attempts.
type events struct {
	*area
	answers  answerLimiter
	failures *transformFailures
	counts   frame.Recent[countsAnswer]
}

func (a *events) listEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "events "+frame.ScopeOf(key))
	q := a.eventQuery(params, key)
	if q.Search != nil {
		return a.searchEvents(w, r, params, q)
	}
	limit, last := params.Page()
	if params.Err != nil {
		return params.Err
	}
	q.Limit, q.Before = limit, id.ID(last)
	page, err := a.Events.Events(r.Context(), q)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, rowBytes(page.Rows), func() any {
		out := frame.List[wire.EventRow]{Data: a.rowsOf(page.Rows)}
		if page.More && len(page.Rows) > 0 {
			out.NextCursor = params.Hash.Cursor(frame.RowKey(page.Rows[len(page.Rows)-1].ID))
		}
		return out
	})
}

// rowsOf renders the rows of a list.
func (a *events) rowsOf(all []event.Summary) []wire.EventRow {
	rows := make([]wire.EventRow, len(all))
	for i := range all {
		rows[i] = rowOf(&all[i])
		if at := a.Erasures.ErasedAt(all[i].ID); !at.IsZero() {
			rows[i].PayloadErasedAt = web.Time(at)
			setWhy(&rows[i].EventBase, summaryWhy(&all[i]).erased(rows[i].NextAttemptAt))
		} else if halts := a.halts(&all[i]); len(halts) > 0 {
			setWhy(&rows[i].EventBase, rowWhy(&all[i], halts))
		}
	}
	return rows
}

// eventQuery reads the filters of GET /v1/events.
func (a *events) eventQuery(q *frame.Query, key *config.Key) event.Query {
	out := event.Query{Account: key.Account}
	frame.ReadFilters(q, event.Filters, &out)
	a.OfTenant(q, key, &out)
	span := a.PastWindow(q, frame.SinceNames, frame.UntilNames)
	out.Since, out.Until = span.Since, span.Until
	if out.Search = search(q); out.Search != nil {
		a.searchTime(q, &out, span.SinceName)
	}
	q.RefuseUnknown()
	return out
}

func (a *events) readEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.detail(r, key)
	if err != nil {
		return err
	}
	var failures map[string]*wire.TransformFailure
	if a.Erasures.ErasedAt(d.ID).IsZero() {
		failures = a.failures.of(r.Context(), d)
	}
	frame.SetAsOf(w, d.AsOf)
	return a.answers.write(r.Context(), w, detailBytes(d), func() any {
		return a.detailOf(a.ViewerOf(key), d, failures)
	})
}

// detail reads the event that the path names.
func (a *events) detail(r *http.Request, key *config.Key) (*event.Detail, error) {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return nil, err
	}
	return a.Events.Event(r.Context(), key.Account, d)
}

func (a *events) listAttempts(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	q := frame.NewQuery(r, "attempts "+frame.ScopeOf(key))
	q.Hash.Add(d.String())
	limit, last := q.Page()
	q.RefuseUnknown()
	if q.Err != nil {
		return q.Err
	}
	page, err := a.Events.Attempts(r.Context(), key.Account, d, id.ID(last), limit)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, attemptBytes(page.Rows), func() any {
		out := frame.List[wire.Attempt]{Data: attemptsOf(a.ViewerOf(key), d, page.Rows)}
		if page.More && len(page.Rows) > 0 {
			out.NextCursor = q.Hash.Cursor(frame.RowKey(page.Rows[len(page.Rows)-1].ID))
		}
		return out
	})
}

// maxCounted is how many events a count reads. An answer that counted all events of a busy day would cost as much as a
// hundred pages of a list.
const maxCounted = 1000

// maxCountSteps is how many steps of time a count has.
const maxCountSteps = 60

// countSteps are the lengths of a step, the shortest first.
var countSteps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 70 * 24 * time.Hour}

// countsAnswer is a shared answer.
type countsAnswer struct {
	view wire.CountedEvents
	asOf time.Time
}

// countEvents counts the newest events that match the filters of a list, by status and by time. Callers with the same
// filters share an answer for some seconds.
func (a *events) countEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "counts "+frame.ScopeOf(key))
	q := a.eventQuery(params, key)
	if q.Search != nil {
		params.Fail("q", "events are not counted by their texts: leave out q, body and header")
	}
	for _, name := range []string{"limit", "cursor"} { // of lists
		if params.Values.Has(name) {
			params.Fail(name, "is not a parameter: the newest %d events are counted", maxCounted)
		}
	}
	if params.Err != nil {
		return params.Err
	}
	q.Limit = maxCounted
	filters := params.Hash.Cursor(frame.RowKey{})
	x, err := a.counts.Get(r.Context(), filters, func(ctx context.Context) (countsAnswer, error) {
		page, err := a.Events.Events(ctx, q)
		return countsAnswer{countsOf(page.Rows, page.More), page.AsOf}, err
	})
	if err != nil {
		return err
	}
	frame.SetAsOf(w, x.asOf)
	return web.Answer(w, http.StatusOK, x.view)
}

// countsOf counts rows, which are sorted newest first.
func countsOf(rows []event.Summary, more bool) wire.CountedEvents {
	out := wire.CountedEvents{Object: "event_counts", Counted: len(rows), More: more, StepSeconds: 1,
		Steps: []wire.CountedStep{}}
	if len(rows) == 0 {
		return out
	}
	span, step := rows[0].ID.Time().Sub(rows[len(rows)-1].ID.Time()), countSteps[0]
	for _, longer := range countSteps {
		if step = longer; span <= maxCountSteps*step {
			break
		}
	}
	out.StepSeconds = int64(step / time.Second)
	for i := len(rows) - 1; i >= 0; i-- {
		at := web.Time(rows[i].ID.Time().UTC().Truncate(step))
		if n := len(out.Steps); n == 0 || out.Steps[n-1].At != at {
			out.Steps = append(out.Steps, wire.CountedStep{At: at})
		}
		count(&out.Statuses, rows[i].Status)
		count(&out.Steps[len(out.Steps)-1].StatusCounts, rows[i].Status)
	}
	return out
}

func count(c *wire.StatusCounts, s event.Status) {
	switch s {
	case event.Delivered:
		c.Delivered++
	case event.Failed:
		c.Failed++
	case event.Retrying:
		c.Retrying++
	case event.Skipped:
		c.Skipped++
	case event.Rejected:
		c.Rejected++
	default:
		c.Pending++
	}
}

func rowOf(s *event.Summary) wire.EventRow {
	row := wire.EventRow{EventBase: baseOf(s), Attempts: s.Attempts, Deliveries: make([]wire.DeliveryState,
		len(s.Deliveries))}
	for i := range s.Deliveries {
		x := &s.Deliveries[i]
		row.Deliveries[i] = wire.DeliveryState{DestinationID: x.Destination, Status: x.Status, Reason: frame.OrNull(x.Reason),
			LastResponseStatus: frame.OrNull(x.Code)}
	}
	return row
}

func baseOf(s *event.Summary) wire.EventBase {
	base := wire.EventBase{
		ID: s.ID.Text(id.Event), Object: "event", EndpointID: s.Endpoint, Type: frame.OrNull(s.Type), Status: s.Status,
		Source: s.Source, Verification: s.Proof, Destinations: wire.EventCounts(s.Counts), Processing: s.Processing,
		SizeBytes: s.Size, ReceivedAt: web.Time(s.ID.Time()), LastAttemptAt: web.Time(s.LastAttemptAt),
		NextAttemptAt: web.Time(s.NextAttemptAt), Reason: frame.OrNull(s.Reason),
	}
	setWhy(&base, summaryWhy(s))
	if base.Processing == "" {
		base.Processing = event.ProcessingNone
	}
	return base
}

func setWhy(v *wire.EventBase, x explained) { v.Why, v.WhyDetails = x.text(), x.Why }

// detailOf renders an event; failures are those of transformations by destination.
func (a *events) detailOf(by frame.Viewer, d *event.Detail, failures map[string]*wire.TransformFailure) wire.Event {
	e, erasedAt := d.Event, a.Erasures.ErasedAt(d.ID)
	var halts map[string]string
	if erasedAt.IsZero() {
		halts = a.halts(&d.Summary)
	}
	v := wire.Event{
		EventBase: baseOf(&d.Summary), Headers: joinHeaders(e.Header), HeadersRaw: headerLines(e.Header),
		HeadersBase64: base64HeaderValues(by, e.Header),
		ContentType:   frame.OrNull(e.ContentType()), Method: e.Method, Query: e.Query, RemoteIP: addrOrNull(e.RemoteIP),
		IdempotencyKey: frame.OrNull(e.IdempotencyKey), DuplicateOf: frame.OrNull(e.DuplicateOf),
		ExpiresAt:  web.Time(a.Expiry(e.ID)),
		TraceID:    frame.OrNull(event.TraceID(e.Trace)),
		Deliveries: deliveriesOf(d, failures, halts, !erasedAt.IsZero()), AttemptsTruncated: d.AttemptsTruncated,
	}
	v.Body, v.BodyEncoding = frame.BodyText(by.MaskTokens(e.Body))
	v.Attempts = attemptsOf(by, d.ID, d.Attempts)
	why := eventWhy(d, failures, halts)
	if !erasedAt.IsZero() {
		v.PayloadErasedAt, why = web.Time(erasedAt), why.erased(v.NextAttemptAt)
	}
	setWhy(&v.EventBase, why)
	if m := e.MismatchOf(); m != nil && erasedAt.IsZero() {
		v.Mismatch = &wire.Mismatch{Version: m.Version, Pointer: m.Pointer, Message: m.Message}
	}
	if e.Source == event.SourceAPI {
		v.Data = envelopeData(e.Body)
	}
	if r := d.Receipt; r != nil {
		v.Receipt = &wire.Receipt{ReceiptFields: receiptFieldsOf(r), CreatedAt: web.Time(r.FirstAt),
			UpdatedAt: web.Time(r.At)}
	}
	return v
}

// deliveriesOf renders the deliveries of an event; failures and halts are by destination.
func deliveriesOf(d *event.Detail, failures map[string]*wire.TransformFailure, halts map[string]string, erased bool,
) []wire.Delivery {
	out := make([]wire.Delivery, len(d.Deliveries))
	for i := range d.Deliveries {
		x, failed := &d.Deliveries[i], failures[d.Deliveries[i].Destination]
		why := deliveryWhy(x, d.Attempts, failed, halts[x.Destination])
		if erased {
			why = why.erased(web.Time(x.NextAttemptAt))
		}
		var filter *string
		if failed != nil && failed.TransformationVersion == 0 {
			filter, failed = &failed.Message, nil
		}
		out[i] = wire.Delivery{
			ID: id.DeliveryOf(d.ID, x.Destination), DestinationID: x.Destination, Status: x.Status,
			Reason: frame.OrNull(x.Reason),
			Why:    why.text(), WhyDetails: why.Why, Attempts: x.Attempts, NextAttemptAt: web.Time(x.NextAttemptAt),
			RunID: frame.OrNull(x.Run), TransformFailure: failed, FilterFailure: filter,
		}
	}
	return out
}

func attemptsOf(by frame.Viewer, ev id.ID, rows []event.AttemptRow) []wire.Attempt {
	out := make([]wire.Attempt, len(rows))
	for i := range rows {
		r := &rows[i]
		v := wire.Attempt{
			ID: r.ID.Text(id.Attempt), EventID: ev.Text(id.Event), EndpointID: r.Endpoint, DestinationID: r.Destination,
			DeliveryID: id.DeliveryOf(ev, r.Destination), AttemptNumber: r.Number, Trigger: r.Trigger, Status: "succeeded",
			ErrorCode: frame.OrNull(r.ErrorCode), ErrorMessage: frame.OrNull(r.ErrorMessage), StartedAt: web.Time(r.StartedAt),
			DurationMS: r.Duration.Milliseconds(), TTFBMS: r.TTFB.Milliseconds(), RemoteIP: addrOrNull(r.RemoteIP),
			NextAttemptAt: web.Time(r.NextAt), TransformationVersion: r.TransformationVersion,
			TraceID: frame.OrNull(event.TraceID(r.Trace)),
			Request: wire.AttemptRequest{URL: by.RequestURL(r.URL), Method: r.Method,
				Headers: joinHeaders(r.RequestHeader.Fields())},
		}
		if !r.OK {
			v.Status = "failed"
		}
		if strings.HasPrefix(r.Run, id.Recovery) {
			v.RecoveryID = &r.Run
		} else {
			v.RunID = frame.OrNull(r.Run)
		}
		if r.RetryAfter > 0 {
			seconds := int64(r.RetryAfter / time.Second)
			v.RetryAfterSeconds = &seconds
		}
		if r.Code != 0 {
			v.ResponseStatus = &r.Code
			v.Response = &wire.AttemptResponse{Headers: joinHeaders(r.ResponseHeader.Fields()), Truncated: r.Truncated}
			for _, name := range []string{"Location", "Content-Location"} { // they may repeat the destination's own URL
				if to, ok := v.Response.Headers[name]; ok {
					v.Response.Headers[name] = by.RequestURL(to)
				}
			}
			v.Response.Body, v.Response.BodyEncoding = frame.BodyText(by.MaskTokens(r.ResponseBody))
		}
		out[i] = v
	}
	return out
}

// joinHeaders maps header names to values and joins repeats with a comma (RFC 9110, 5.3).
func joinHeaders(fields []event.Field) map[string]string {
	out := make(map[string]string, len(fields))
	for _, f := range fields {
		if old, ok := out[f.Name]; ok {
			out[f.Name] = old + ", " + f.Value
		} else {
			out[f.Name] = f.Value
		}
	}
	return out
}

// headerLines returns names and values of header lines.
func headerLines(fields []event.Field) [][2]string {
	lines := make([][2]string, len(fields))
	for i, f := range fields {
		lines[i] = [2]string{f.Name, f.Value}
	}
	return lines
}

// base64HeaderValues returns, for each header line, its value in base64 if the value is not UTF-8, else nil. It returns
// no list if all values are UTF-8. Some providers send Latin-1, and JSON has U+FFFD in place of its bytes.
func base64HeaderValues(by frame.Viewer, fields []event.Field) (values []*string) {
	for i, f := range fields {
		if utf8.ValidString(f.Value) {
			continue
		}
		if values == nil {
			values = make([]*string, len(fields))
		}
		// Masked before it is encoded, because the masker of the answer cannot see tokens in base64
		values[i] = new(base64.StdEncoding.EncodeToString(by.MaskTokens([]byte(f.Value))))
	}
	return values
}

// envelopeData returns the data of an event that was sent through the API: the last member of its envelope, byte for
// byte. See appendEnvelope.
func envelopeData(body []byte) json.RawMessage {
	_, data, ok := bytes.Cut(body, []byte(dataMember))
	if !ok || len(data) == 0 {
		return nil
	}
	return json.RawMessage(data[:len(data)-1])
}

func addrOrNull(a netip.Addr) *string {
	if !a.IsValid() {
		return nil
	}
	return frame.OrNull(a.String())
}
