package endpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// previewRate is how many previews a second a key or a person may make.
	previewRate = 20
	// maxPreviews is how many previews a node makes at the same time; a further one waits for previewWait.
	maxPreviews, previewWait = 2, 2 * time.Second
	// previewOpsBytes is the room for operations and names in a request, beside the sample.
	previewOpsBytes = 2 * transform.MaxOpsBytes
)

// previews shows what operations do to a sample. It stores nothing and sends nothing.
type previews struct {
	*area
	turns frame.Turns
}

func (a *previews) previewTransformation(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.pace(key); err != nil {
		return err
	}
	if err := web.CheckContentType(r); err != nil {
		return err
	}
	var body bytes.Buffer
	if err := web.ReadBody(r, &body, a.MaxBody+previewOpsBytes); err != nil {
		return err
	}
	in := &frame.Input{}
	program, sample := a.previewInput(in, body.Bytes(), e)
	if in.Err != nil {
		return in.Err
	}
	masked := 0
	if sample.event != (id.ID{}) {
		if masked, err = a.loadSample(r.Context(), key, e, sample); err != nil {
			return err
		}
	}
	preview, err := a.previewSoon(r.Context(), program, sample.Input)
	if err != nil {
		return err
	}
	view := previewViewOf(&preview)
	view.BytesIn, view.Masked, view.Warnings = len(sample.Event.Body), masked, in.Warnings
	return web.Answer(w, http.StatusOK, view)
}

// pace refuses a preview of a key that makes too many.
func (a *previews) pace(key *config.Key) error {
	if wait, _ := a.Limits.TakeSharedToken("preview", key.ID, previewRate); wait > 0 {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
			Message: fmt.Sprintf("at most %d previews a second; wait as long as Retry-After says", previewRate)}
	}
	return nil
}

// previewSoon applies the operations when fewer than maxPreviews are being applied. A request comes here with its body
// and its event, so that a slow client or a slow store makes no other one wait.
func (a *previews) previewSoon(
	ctx context.Context, p *transform.Program, in transform.Input,
) (transform.Preview, error) {
	end, ok := a.turns.Take(ctx)
	if !ok {
		return transform.Preview{}, web.ServiceUnavailable(nil, "this node is making other previews; try again")
	}
	defer end()
	return p.Preview(ctx, in, int(2*a.MaxBody))
}

// sampleInput is the document of a preview: pasted, or of an event that is not read yet.
type sampleInput struct {
	transform.Input
	event id.ID
	param string // member that named the event
}

// previewInput reads {ops?, destination_id?, sample | sample_text}. Without ops it takes the saved ones.
func (a *previews) previewInput(in *frame.Input, body []byte, e *config.Endpoint) (*transform.Program, *sampleInput) {
	o := in.NewObject("", body)
	var program *transform.Program
	var dest string
	if o.Text("destination_id", 1, maxHeaderName, &dest); dest != "" && e.Destination(dest) == nil {
		o.Fail("destination_id", "is not a destination of this endpoint")
	}
	if raw, ok := o.Raw("ops"); ok && frame.KindOf(raw) != frame.KindNull {
		_, program = transformationOps(in, "ops", raw)
	} else if in.Err == nil {
		var saved []transform.Op
		if t, _ := e.TransformationOf(dest); t != nil {
			saved = t.Ops
		}
		var err error
		if program, err = transform.Compile(saved); err != nil {
			in.Fail("ops", "is required: this version cannot read the saved operations: %v", err)
		}
	}
	made := &event.Event{ID: id.Lowest(a.Now()), Source: event.SourceProvider, Endpoint: e.ID}
	sample := &sampleInput{Input: transform.Input{Event: made, Tenant: e.Tenant, Attempt: 1}}
	value, pasted := o.Raw("sample")
	text, typed := o.RawOfKind("sample_text", frame.KindString)
	switch {
	case in.Err != nil:
	case pasted == typed:
		o.Fail("sample", "is required: a JSON document, or the id of an event; or sample_text, the text of a body")
	case typed:
		decoded, err := web.DecodeString(text)
		if err != nil {
			o.Fail("sample_text", "must be a JSON string")
		}
		made.Body = []byte(decoded)
	default:
		made.Body, sample.param = value, "sample"
		if frame.KindOf(value) != frame.KindString {
			break
		}
		if name, err := web.DecodeString(value); err == nil && strings.HasPrefix(name, id.Event) {
			if sample.event, err = id.Parse(id.Event, name); err != nil || !a.Now().Before(a.Expiry(sample.event)) {
				o.Fail("sample", "there is no such event")
			}
		}
	}
	o.WarnUnknown()
	return program, sample
}

// loadSample reads the event of a sample and masks the credentials in its body. It returns their number.
func (a *previews) loadSample(ctx context.Context, key *config.Key, e *config.Endpoint, s *sampleInput) (int, error) {
	detail, err := a.Events.Event(ctx, key.Account, s.event)
	switch {
	case errors.Is(err, event.ErrNotFound), err == nil && detail.Event.Endpoint != e.ID:
		return 0, web.Invalid(s.param, "this endpoint has no such event")
	case err != nil:
		return 0, err
	case !a.Erasures.ErasedAt(s.event).IsZero():
		return 0, web.WrongState(s.param, "the payload of the event was erased; choose another event")
	}
	ev, masked := a.masked(key, detail.Event)
	s.Event = &ev
	return masked, nil
}

// masked is an event without credentials, and their number in its body. Operations may cut a token into parts, and a
// condition guess one.
func (a *previews) masked(key *config.Key, stored *event.Event) (ev event.Event, masked int) {
	ev = *stored
	by := a.ViewerOf(key)
	mask := func(text []byte) []byte {
		text = by.MaskTokens(text)
		for _, scanner := range []*secrets.Scanner{a.ReceiptScanner, a.LeakScanner} {
			var n int
			text, n = scanner.MaskAll(nil, text)
			masked += n
		}
		return text
	}
	ev.Type, ev.Query = string(by.MaskTokens([]byte(ev.Type))), string(mask([]byte(ev.Query)))
	ev.Header = slices.Clone(ev.Header)
	for i := range ev.Header {
		ev.Header[i].Value = shownHeader(ev.Header[i].Name, string(mask([]byte(ev.Header[i].Value))))
	}
	masked = 0 // the answer counts those in the body
	ev.Body = mask(ev.Body)
	return ev, masked
}

func previewViewOf(p *transform.Preview) *wire.TransformationPreview {
	view := &wire.TransformationPreview{OK: p.Failure == nil, BytesOut: len(p.Body), Steps: []wire.TransformationStep{},
		Path: p.Path, Method: p.Method, Cancelled: p.Cancelled}
	for _, f := range p.Header {
		if view.Headers == nil {
			view.Headers = make(map[string]string)
		}
		view.Headers[f.Name] = f.Value
	}
	if p.Failure != nil {
		view.Error = frame.FailureViewOf(p.Failure)
	} else {
		view.OutputText = frame.OrNull(string(p.Body))
		if isReadable(p.Body) {
			view.Output = p.Body
		}
	}
	for _, s := range p.Steps {
		step := wire.TransformationStep{Index: s.Index, Op: s.Op, Changed: []wire.Change{}, ChangedTotal: s.Total,
			Warnings: s.Warnings}
		for _, c := range s.Changed {
			x := wire.Change{Change: c.Kind, Pointer: c.Pointer, Before: frame.OrNull(c.Before), After: frame.OrNull(c.After)}
			if c.Kind == transform.Moved || c.Kind == transform.Replaced && c.From != "" {
				x.From = &c.From
			}
			step.Changed = append(step.Changed, x)
		}
		view.Steps = append(view.Steps, step)
	}
	return view
}
