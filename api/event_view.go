package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// eventBase is what a list and the single read show of an event.
type eventBase struct {
	ID            string           `json:"id"`
	Object        string           `json:"object"`
	EndpointID    string           `json:"endpoint_id"`
	Type          *string          `json:"type"`
	Status        event.Status     `json:"status"`
	Source        event.Source     `json:"source"`
	Destinations  countsView       `json:"destinations"`
	Processing    event.Processing `json:"processing"`
	SizeBytes     int              `json:"size_bytes"`
	ReceivedAt    web.Time         `json:"received_at"`
	LastAttemptAt web.Time         `json:"last_attempt_at"`
	NextAttemptAt web.Time         `json:"next_attempt_at"`
	Reason        *event.Reason    `json:"reason"`
	Why           string           `json:"why"`
	// PayloadErasedAt is when the payload was erased on request.
	PayloadErasedAt web.Time `json:"payload_erased_at"`
	// Verification is how far the origin of the event is proved; its deliveries carry it as relay-verification.
	Verification event.Proof `json:"verification"`
}

// eventRow is an event in a list, and the response to a send.
type eventRow struct {
	eventBase
	Attempts   int             `json:"attempts"`
	Deliveries []deliveryState `json:"deliveries"`
}

// deliveryState is the state of an event at one destination, in a list.
type deliveryState struct {
	DestinationID string        `json:"destination_id"`
	Status        event.Status  `json:"status"`
	Reason        *event.Reason `json:"reason"`
}

type countsView struct {
	Total     int `json:"total"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Pending   int `json:"pending"`
}

func rowOf(s *event.Summary) eventRow {
	row := eventRow{eventBase: baseOf(s), Attempts: s.Attempts, Deliveries: make([]deliveryState, len(s.Deliveries))}
	for i := range s.Deliveries {
		x := &s.Deliveries[i]
		row.Deliveries[i] = deliveryState{x.Destination, x.Status, orNull(x.Reason)}
	}
	return row
}

func baseOf(s *event.Summary) eventBase {
	base := eventBase{
		ID: s.ID.Text(id.Event), Object: "event", EndpointID: s.Endpoint, Type: orNull(s.Type), Status: s.Status,
		Source: s.Source, Verification: s.Proof, Destinations: countsView(s.Counts), Processing: s.Processing,
		SizeBytes: s.Size, ReceivedAt: web.Time(s.ID.Time()), LastAttemptAt: web.Time(s.LastAttemptAt),
		NextAttemptAt: web.Time(s.NextAttemptAt), Reason: orNull(s.Reason), Why: summaryWhy(s),
	}
	if base.Processing == "" {
		base.Processing = event.ProcessingNone
	}
	return base
}

// orNull returns nil for the empty text.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

// eventDetail is the response to GET /v1/events/{event}.
type eventDetail struct {
	eventBase
	Attempts          []attemptView     `json:"attempts"`
	Headers           map[string]string `json:"headers"`
	HeadersRaw        [][2]string       `json:"headers_raw"`
	HeadersBase64     []*string         `json:"headers_base64,omitempty"` // see base64HeaderValues
	Body              string            `json:"body"`
	BodyEncoding      string            `json:"body_encoding"`
	ContentType       *string           `json:"content_type"`
	Method            string            `json:"method"`
	Query             string            `json:"query"`
	RemoteIP          *string           `json:"remote_ip"`
	IdempotencyKey    *string           `json:"idempotency_key"`
	DuplicateOf       *string           `json:"duplicate_of"`
	TraceID           *string           `json:"trace_id"`
	ExpiresAt         web.Time          `json:"expires_at"`
	Deliveries        []deliveryView    `json:"deliveries"`
	AttemptsTruncated bool              `json:"attempts_truncated"`
	Receipt           *receiptView      `json:"receipt"`
	Data              json.RawMessage   `json:"data,omitempty"` // of a sent event
}

type deliveryView struct {
	ID            string        `json:"id"`
	DestinationID string        `json:"destination_id"`
	Status        event.Status  `json:"status"`
	Reason        *event.Reason `json:"reason"`
	Why           string        `json:"why"`
	Attempts      int           `json:"attempts"`
	NextAttemptAt web.Time      `json:"next_attempt_at"`
	RunID         *string       `json:"run_id"`
	// TransformFailure says which operation failed; nil if none did, or if that is not known any more.
	TransformFailure *transformFailureView `json:"transform_failure"`
}

type receiptView struct {
	receiptFields
	CreatedAt web.Time `json:"created_at"`
	UpdatedAt web.Time `json:"updated_at"`
}

// detailOf renders an event; failures are those of transformations by destination.
func (a *events) detailOf(by viewer, d *event.Detail, failures map[string]*transformFailureView) eventDetail {
	e, erasedAt := d.Event, a.erasures.ErasedAt(d.ID)
	var halts map[string]string
	if erasedAt.IsZero() {
		halts = a.halts(&d.Summary)
	}
	v := eventDetail{
		eventBase: baseOf(&d.Summary), Headers: joinHeaders(e.Header), HeadersRaw: headerLines(e.Header),
		HeadersBase64: base64HeaderValues(by, e.Header),
		ContentType:   orNull(e.ContentType()), Method: e.Method, Query: e.Query, RemoteIP: addrOrNull(e.RemoteIP),
		IdempotencyKey: orNull(e.IdempotencyKey), DuplicateOf: orNull(e.DuplicateOf), ExpiresAt: web.Time(a.expiry(e.ID)),
		TraceID:    orNull(event.TraceID(e.Trace)),
		Deliveries: deliveriesOf(d, failures, halts), AttemptsTruncated: d.AttemptsTruncated,
	}
	v.Body, v.BodyEncoding = bodyText(by.maskTokens(e.Body))
	v.Attempts, v.Why = attemptsOf(by, d.ID, d.Attempts), eventWhy(d, failures, halts)
	if !erasedAt.IsZero() {
		v.setErased(erasedAt)
		for i := range v.Deliveries {
			x := &v.Deliveries[i]
			x.Why = whyErased(x.Why, x.Status, x.NextAttemptAt)
		}
	}
	if e.Source == event.SourceAPI {
		v.Data = envelopeData(e.Body)
	}
	if r := d.Receipt; r != nil {
		v.Receipt = &receiptView{receiptFieldsOf(r), web.Time(r.FirstAt), web.Time(r.At)}
	}
	return v
}

// setErased says when the payload was erased.
func (v *eventBase) setErased(at time.Time) {
	v.PayloadErasedAt = web.Time(at)
	v.Why = whyErased(v.Why, v.Status, v.NextAttemptAt)
}

// deliveriesOf renders the deliveries of an event; failures and halts are by destination.
func deliveriesOf(d *event.Detail, failures map[string]*transformFailureView, halts map[string]string,
) []deliveryView {
	out := make([]deliveryView, len(d.Deliveries))
	for i := range d.Deliveries {
		x, failed := &d.Deliveries[i], failures[d.Deliveries[i].Destination]
		out[i] = deliveryView{
			ID: id.DeliveryOf(d.ID, x.Destination), DestinationID: x.Destination, Status: x.Status, Reason: orNull(x.Reason),
			Why:      deliveryWhy(x, d.Attempts, failed, halts[x.Destination]),
			Attempts: x.Attempts, NextAttemptAt: web.Time(x.NextAttemptAt),
			RunID: orNull(x.Run), TransformFailure: failed,
		}
	}
	return out
}

type attemptView struct {
	ID                string           `json:"id"`
	EventID           string           `json:"event_id"`
	EndpointID        string           `json:"endpoint_id"`
	DestinationID     string           `json:"destination_id"`
	DeliveryID        string           `json:"delivery_id"`
	AttemptNumber     int              `json:"attempt_number"`
	Trigger           event.Trigger    `json:"trigger"`
	RunID             *string          `json:"run_id"`
	RecoveryID        *string          `json:"recovery_id"`
	Status            string           `json:"status"`
	ResponseStatus    *int             `json:"response_status"`
	ErrorCode         *event.ErrorCode `json:"error_code"`
	ErrorMessage      *string          `json:"error_message"`
	StartedAt         web.Time         `json:"started_at"`
	DurationMS        int64            `json:"duration_ms"`
	TTFBMS            int64            `json:"ttfb_ms"`
	Request           requestView      `json:"request"`
	Response          *responseView    `json:"response"`
	RemoteIP          *string          `json:"remote_ip"`
	NextAttemptAt     web.Time         `json:"next_attempt_at"`
	RetryAfterSeconds *int64           `json:"retry_after_seconds"`
	// TransformationVersion is 0 if the body was sent as it is stored.
	TransformationVersion int     `json:"transformation_version"`
	TraceID               *string `json:"trace_id"`
}

type requestView struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

type responseView struct {
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	BodyEncoding string            `json:"body_encoding"`
	Truncated    bool              `json:"truncated"`
}

func attemptsOf(by viewer, ev id.ID, rows []event.AttemptRow) []attemptView {
	out := make([]attemptView, len(rows))
	for i := range rows {
		r := &rows[i]
		v := attemptView{
			ID: r.ID.Text(id.Attempt), EventID: ev.Text(id.Event), EndpointID: r.Endpoint, DestinationID: r.Destination,
			DeliveryID: id.DeliveryOf(ev, r.Destination), AttemptNumber: r.Number, Trigger: r.Trigger, Status: "succeeded",
			ErrorCode: orNull(r.ErrorCode), ErrorMessage: orNull(r.ErrorMessage), StartedAt: web.Time(r.StartedAt),
			DurationMS: r.Duration.Milliseconds(), TTFBMS: r.TTFB.Milliseconds(), RemoteIP: addrOrNull(r.RemoteIP),
			NextAttemptAt: web.Time(r.NextAt), TransformationVersion: r.TransformationVersion,
			TraceID: orNull(event.TraceID(r.Trace)),
			Request: requestView{by.requestURL(r.URL), r.Method, joinHeaders(r.RequestHeader.Fields())},
		}
		if !r.OK {
			v.Status = "failed"
		}
		if strings.HasPrefix(r.Run, id.Recovery) {
			v.RecoveryID = &r.Run
		} else {
			v.RunID = orNull(r.Run)
		}
		if r.RetryAfter > 0 {
			seconds := int64(r.RetryAfter / time.Second)
			v.RetryAfterSeconds = &seconds
		}
		if r.Code != 0 {
			v.ResponseStatus = &r.Code
			v.Response = &responseView{Headers: joinHeaders(r.ResponseHeader.Fields()), Truncated: r.Truncated}
			for _, name := range []string{"Location", "Content-Location"} { // they may repeat the destination's own URL
				if to, ok := v.Response.Headers[name]; ok {
					v.Response.Headers[name] = by.requestURL(to)
				}
			}
			v.Response.Body, v.Response.BodyEncoding = bodyText(by.maskTokens(r.ResponseBody))
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
func base64HeaderValues(by viewer, fields []event.Field) (values []*string) {
	for i, f := range fields {
		if utf8.ValidString(f.Value) {
			continue
		}
		if values == nil {
			values = make([]*string, len(fields))
		}
		// Masked before it is encoded, because the masker of the answer cannot see tokens in base64
		values[i] = new(base64.StdEncoding.EncodeToString(by.maskTokens([]byte(f.Value))))
	}
	return values
}

// bodyText returns bytes as text if they are UTF-8, else in base64.
func bodyText(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
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
	return orNull(a.String())
}
