package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/personal"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a processing receipt.
const (
	maxReference     = 255     // characters
	maxDetailsText   = 2 << 10 // bytes of a text
	maxDetailsObject = 4 << 10 // bytes of an object, as sent
	maxDetailsDepth  = 5       // nested objects and arrays, including the outermost
)

// reportTimeout bounds the wait for the log and the store.
const reportTimeout = 10 * time.Second

func receiptFieldsOf(r *event.Receipt) wire.ReceiptFields {
	return wire.ReceiptFields{State: r.State, Reference: frame.OrNull(r.Reference), Details: details(r.Details)}
}

// details returns the JSON that was sent, or null if nothing was sent.
func details(sent string) json.RawMessage {
	if sent == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(sent)
}

// receipts accepts what receivers report about the processing of events.
type receipts struct{ *area }

// receiveProcessing records a processing receipt. Every state may follow every other, but processed is final: a
// later receipt with another state is recorded without effect.
func (a *receipts) receiveProcessing(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	endpoint, err := a.Receipts.EventEndpoint(r.Context(), key.Account, d)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	receipt := &event.Receipt{Event: d, Account: key.Account, Endpoint: endpoint, At: a.Now()}
	in := a.readReceipt(body, receipt)
	if in.Err != nil {
		return in.Err
	}
	// It continues when the client leaves: a receipt in the log takes effect.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reportTimeout)
	defer cancel()
	s, err := a.Receipts.Report(ctx, receipt)
	if errors.Is(err, event.ErrUnavailable) {
		return web.ServiceUnavailable(
			err, "the receipt is recorded, but the event store is behind and cannot return the result yet; read "+
				"the event later, or send the receipt again")
	}
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, wire.ReceiptResult{
		EventID: d.Text(id.Event), ReceiptFields: receiptFieldsOf(&s.Receipt), Applied: s.Applied,
		CreatedAt: web.Time(s.FirstAt), UpdatedAt: web.Time(s.At), Warnings: in.Warnings,
	})
}

// readReceipt validates the body of a receipt.
func (a *receipts) readReceipt(body []byte, to *event.Receipt) *frame.Input {
	in := &frame.Input{}
	o := in.NewObject("", body)
	var state string
	if _, present := o.Raw("state"); !present {
		o.Fail("state", "is required: one of processing, processed, failed")
	}
	o.Enum("state", &state, string(event.ProcessingRunning), string(event.ProcessingDone), string(event.ProcessingFailed))
	to.State = event.Processing(state)
	if !o.IsNull("reference") {
		a.readReference(o, to)
	}
	if !o.IsNull("details") {
		a.readDetails(o, to)
	}
	o.ReadOnly("event_id", "applied", "created_at", "updated_at")
	o.WarnUnknown()
	return in
}

func (a *receipts) readReference(o *frame.Object, to *event.Receipt) {
	raw, ok := o.RawOfKind("reference", frame.KindString)
	if !ok {
		return
	}
	s, err := web.DecodeString(raw)
	switch {
	case err != nil || !web.IsPrintable(s):
		o.Fail("reference", "must be printable text")
	case utf8.RuneCountInString(s) > maxReference:
		o.Fail("reference", "must have at most %d characters", maxReference)
	default:
		a.refuseSecret(o, "reference", s)
		warnOfPersonalData(o, "reference", s)
		to.Reference = s
	}
}

func (a *receipts) readDetails(o *frame.Object, to *event.Receipt) {
	raw, ok := o.Raw("details")
	if !ok {
		return
	}
	switch frame.KindOf(raw) {
	case frame.KindString:
		if s, err := web.DecodeString(raw); err != nil || len(s) > maxDetailsText {
			o.Fail("details", "must have at most %d bytes as text", maxDetailsText)
		}
	case frame.KindObject:
		if len(raw) > maxDetailsObject {
			o.Fail("details", "must have at most %d bytes as an object", maxDetailsObject)
		}
		if event.JSONDepth(raw) > maxDetailsDepth {
			o.Fail("details", "must not be nested deeper than %d", maxDetailsDepth)
		}
	default:
		o.Fail("details", "must be a string or an object")
	}
	if o.In.Err == nil {
		texts := []string{string(raw)} // with its numbers
		eachString(raw, func(s string) {
			a.refuseSecret(o, "details", s)
			texts = append(texts, s)
		})
		warnOfPersonalData(o, "details", texts...)
		to.Details = string(raw)
	}
}

// refuseSecret refuses text that contains a credential. The error names the kind of credential, never its text.
func (a *receipts) refuseSecret(o *frame.Object, name, text string) {
	if rule := a.ReceiptScanner.Find(text); rule != nil {
		o.Fail(name, "must not contain secrets, but seems to contain one: %s; remove it", rule.Name)
	}
}

// personalData names the kinds of personal data that a receipt is checked for.
var personalData = []struct {
	kind personal.Kind
	name string
}{
	{personal.Email, "an email address"}, {personal.Phone, "a phone number"}, {personal.Card, "a card number"},
	{personal.IBAN, "the number of a bank account"},
}

// warnOfPersonalData warns once of each kind of personal data in the texts. It does not refuse them: a shape proves
// nothing, and the receipt would be lost.
func warnOfPersonalData(o *frame.Object, name string, texts ...string) {
	found := map[personal.Kind]bool{}
	for _, text := range texts {
		for _, m := range personal.Scan(text) {
			found[m.Kind] = true
		}
	}
	for _, x := range personalData {
		if found[x.kind] {
			o.In.Warn(o.Param(name), "must not hold personal data, but seems to contain "+x.name+"; leave it out")
		}
	}
}

// eachString calls f for every string of a valid JSON text, including member names.
func eachString(raw []byte, f func(string)) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := stringEnd(raw, i)
		if s, err := web.DecodeString(raw[i:end]); err == nil {
			f(s)
		}
		i = end - 1
	}
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// payloads erases the payloads of events.
type payloads struct{ *area }

// erasePayload erases body, headers and query of an event, and headers and bodies of its attempts. The event stays
// listed with its outcomes. After the answer no node shows the payload or starts to send it; the rows in the store
// and the records in the log are removed later.
func (a *payloads) erasePayload(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	if _, err := a.Receipts.EventEndpoint(r.Context(), key.Account, d); err != nil {
		return err
	}
	at, err := a.Erasures.ErasePayload(r.Context(), d, key.Tenant)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, wire.PayloadErased{ID: d.Text(id.Event), Object: "event",
		PayloadErasedAt: web.Time(at)})
}
