package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

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
	e, erasedAt := d.Event, a.erasures.ErasedAt(d.ID)
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
		out[i] = wire.Delivery{
			ID: id.DeliveryOf(d.ID, x.Destination), DestinationID: x.Destination, Status: x.Status,
			Reason: frame.OrNull(x.Reason),
			Why:    why.text(), WhyDetails: why.Why, Attempts: x.Attempts, NextAttemptAt: web.Time(x.NextAttemptAt),
			RunID: frame.OrNull(x.Run), TransformFailure: failed,
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
