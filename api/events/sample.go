package events

import (
	"bytes"
	"context"
	"net/http"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// testEndpoint stores a test event as the provider would send it. It is delivered like every event and is not
// billed.
func (a *sender) testEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
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
	var body bytes.Buffer
	if err := web.ReadBody(r, &body, a.MaxBody); err != nil {
		return err
	}
	in := &frame.Input{}
	s := readSample(in, body.Bytes(), ep)
	if in.Err == nil && !ep.Enabled {
		in.Err = errDisabled()
	}
	if in.Err != nil && repeatable == "" {
		return in.Err
	}
	parsed := parsedEvent{warnings: in.Warnings, refusal: in.Err}
	return a.answerSend(w, r, ep, repeatable, body.Bytes(), &parsed, func(d id.ID) (wire.EventRow, error) {
		return a.acceptSample(r, ep, d, &s)
	})
}

// sample says which test event is sent.
type sample struct {
	provider, kind string
	destination    string // the only one that gets it; empty: all
}

// readSample reads {provider?, type?, destination_id?}.
func readSample(in *frame.Input, body []byte, ep *config.Endpoint) sample {
	s := sample{provider: ep.Provider}
	if len(body) == 0 {
		body = []byte("{}")
	}
	o := in.NewObject("", body)
	if !o.IsNull("provider") {
		o.Enum("provider", &s.provider, verify.Providers()...)
	}
	if raw, ok := o.Raw("type"); ok && frame.KindOf(raw) != frame.KindNull {
		if frame.KindOf(raw) == frame.KindString {
			s.kind, _ = web.DecodeString(raw) // after an error it is empty, which is not a valid type
		}
		if !event.ValidType(s.kind) {
			o.Fail("type", event.TypeRule)
		}
	}
	if !o.IsNull("destination_id") {
		switch o.Text("destination_id", 1, 64, &s.destination); {
		case s.destination == "":
		case ep.Destination(s.destination) == nil:
			o.Fail("destination_id", "is not a destination of this endpoint")
		case !ep.Destination(s.destination).Enabled:
			o.Fail("destination_id", "is disabled; enable it first")
		}
	}
	o.WarnUnknown()
	return s
}

func (a *sender) acceptSample(r *http.Request, ep *config.Endpoint, d id.ID, s *sample) (wire.EventRow, error) {
	e, err := a.Sample(ep, s.provider, s.kind, d)
	if err != nil {
		return wire.EventRow{}, web.FromError(err)
	}
	if x := a.Config.EventTypeAt(ep, s.kind); x != nil && x.Newest() != nil && x.Newest().Example != nil &&
		s.provider == verify.Generic && ep.Verification == nil { // as an application would send it
		e.Body = appendEnvelope(nil, d, s.kind, x.Newest().Example)
	}
	if s.destination != "" {
		e.Dests = []string{s.destination}
	}
	e.RemoteIP, e.IdempotencyKey = web.InfoOf(r).Client, r.Header.Get(frame.IdempotencyHeader)
	e.Header = append(e.Header, frame.LoopHeaders(r.Header)...)
	e.SkipIfLoop(ep.ID)
	if err := a.Accept.Accept(context.WithoutCancel(r.Context()), e, ep); err != nil {
		return wire.EventRow{}, err
	}
	return acceptedRow(e), nil
}
