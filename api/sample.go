package api

import (
	"bytes"
	"context"
	"net/http"

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
	ep, err := a.endpointInPath(r, key)
	if err != nil {
		return err
	}
	repeatable, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if err := web.CheckContentType(r); err != nil {
		return err
	}
	var body bytes.Buffer
	if err := web.ReadBody(r, &body, a.maxBody); err != nil {
		return err
	}
	in := &input{}
	provider, kind := readSample(in, body.Bytes(), ep.Provider)
	if in.err == nil && !ep.Enabled {
		in.err = errDisabled()
	}
	if in.err != nil && repeatable == "" {
		return in.err
	}
	parsed := parsedEvent{warnings: in.warnings, refusal: in.err}
	return a.answerSend(w, r, ep, repeatable, body.Bytes(), &parsed, func(d id.ID) (wire.EventRow, error) {
		return a.acceptSample(r, ep, d, provider, kind)
	})
}

// readSample reads {provider?, type?}.
func readSample(in *input, body []byte, provider string) (string, string) {
	kind := ""
	if len(body) == 0 {
		body = []byte("{}")
	}
	o := in.newObject("", body)
	if !o.isNull("provider") {
		o.enum("provider", &provider, verify.Providers()...)
	}
	if raw, ok := o.raw("type"); ok && kindOf(raw) != kindNull {
		if kindOf(raw) == kindString {
			kind, _ = web.DecodeString(raw) // after an error it is empty, which is not a valid type
		}
		if !event.ValidType(kind) {
			o.fail("type", event.TypeRule)
		}
	}
	o.warnUnknown()
	return provider, kind
}

func (a *sender) acceptSample(r *http.Request, ep *config.Endpoint, d id.ID, provider, kind string) (wire.EventRow,
	error) {
	e, err := a.sample(ep, provider, kind, d)
	if err != nil {
		return wire.EventRow{}, web.FromError(err)
	}
	e.RemoteIP, e.IdempotencyKey = web.InfoOf(r).Client, r.Header.Get(idempotencyHeader)
	e.Header = append(e.Header, loopHeaders(r.Header)...)
	e.SkipIfLoop(ep.ID)
	if err := a.accept.Accept(context.WithoutCancel(r.Context()), e, ep); err != nil {
		return wire.EventRow{}, err
	}
	return acceptedRow(e), nil
}
