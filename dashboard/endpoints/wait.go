package endpoints

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// waitPage is the data of the page that waits for the first request of a provider.
type waitPage struct {
	*endpointPage
	Preset      *verify.Scheme
	NeedsSecret bool            // the provider signs, but nothing is verified yet
	Event       *model.EventRow // the newest one; nil: nothing has arrived
	Mend        string          // what is wrong with its signature, and how to fix it
	Findings    []string        // what else is wrong
	Unavailable string          // why the events could not be read
}

// waitForEvent shows what to do at the provider, and the newest event as soon as there is one.
func waitForEvent(v *ui.Visit, e *model.Endpoint) error {
	p, err := newWaitPage(v, e)
	if err != nil {
		return err
	}
	return v.Page("endpoint-wait", p)
}

func newWaitPage(v *ui.Visit, e *model.Endpoint) (*waitPage, error) {
	p := &waitPage{endpointPage: newEndpointPage(e), Preset: presetOf(e.Provider)}
	p.Tab = e.Path() + "/wait"
	if p.Preset == nil {
		p.Preset = presetOf(verify.Generic)
	}
	p.NeedsSecret = p.Preset.Signs() && e.Verification == nil
	p.Form = ui.EditForm(url.Values{"verification.mode": {modeOf(newSettings(p.Preset))}})
	offerSecret(p.Form, p.Preset)
	p.Choices = settingsChoices(ui.Option{})
	var list wire.List[*model.EventRow]
	var err error
	p.Unavailable, err = v.TryGet("/v1/events", url.Values{"endpoint_id": {e.ID}, "limit": {"1"}}, &list)
	if err == nil && len(list.Data) > 0 {
		p.Event = list.Data[0]
		err = explainSignature(v, p)
	}
	return p, err
}

// modeOf is how an endpoint verifies signatures.
func modeOf(e *model.Endpoint) string {
	if e.Verification == nil {
		return modeOff
	}
	return e.Verification.Mode
}

// Explanation is what became of the newest event, in one sentence.
func (p *waitPage) Explanation() (string, wire.Why) {
	e, text := p.Event, ""
	switch {
	case e.Status == event.Rejected:
		_, reason := e.WhyDetails.Parts(e.Status)
		text = "It arrived and was rejected: " + reason + "."
	case e.Captured():
		text = "It arrived and was captured. The endpoint has no enabled destination, so nothing is sent."
	case e.Status == event.Delivered && !p.badSignature():
		text = "It arrived and was delivered."
	default:
		text = "It arrived. " + ui.Sentence(e.Why)
	}
	return text, e.WhyDetails
}

// badSignature reports whether the reason of the newest event is that of a signature, rejected or observed.
func (p *waitPage) badSignature() bool {
	return ui.KnownText("signature", ui.TextOf(p.Event.Reason)) != ""
}

// explainSignature sets what is wrong with the signature of the newest event.
func explainSignature(v *ui.Visit, p *waitPage) error {
	if !p.badSignature() {
		return nil
	}
	p.Mend = ui.KnownText("signature", ui.TextOf(p.Event.Reason))
	unexplained := *p.Event.Reason == event.SignatureMismatch
	var answer wire.SignatureExplanation
	err := v.Get(ui.APIOf(p.Event.ID)+"/signature", nil, &answer)
	if status := ui.StatusOf(err); err != nil && !ui.IsUnavailable(err) && status != http.StatusNotFound &&
		status != http.StatusBadRequest { // otherwise what is known of the reason is shown
		return err
	}
	for i, x := range answer.Findings {
		switch {
		case i > 0:
			p.Findings = append(p.Findings, ui.Sentence(x.Message))
		default: // it says more than the reason
			p.Mend, unexplained = ui.Sentence(x.Message), x.Code == "no_cause"
		}
	}
	if unexplained && p.Preset.Mistake != "" {
		p.Mend += " " + p.Preset.Mistake
	}
	return nil
}

// saveSecret saves the provider's secret, which is often known only after the ingest URL was entered there.
func saveSecret(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	generated, p := takeGenerated(f), presetOf(e.Provider)
	shown := func() error {
		return v.Page("endpoint-created", created{endpointPage: newEndpointPage(e), Title: "Secret for " + p.Label, Preset: p,
			ProviderSecret: generated, Repeated: v.Replayed, Next: e.Path() + "/wait", NextText: "Next: enter it at " + p.Label})
	}
	if x := e.Verification; x != nil && generated != "" && strings.HasSuffix(generated, ui.TextOf(x.SecretLast4)) &&
		ui.TextOf(x.SecretLast4) != "" { // the answer that showed this secret was lost
		return shown()
	}
	if e.Verification != nil { // the form is drawn while there is none: somebody was first, or this is a repeat
		return v.Redirect(e.Path()+"/settings", "A secret is stored already. Nothing was changed; it can be replaced here.")
	}
	body := ui.Object{"verification": ui.Object{
		"type": e.Provider, "mode": f.Value("verification.mode"), "secret": f.Value("verification.secret")}}
	return v.Ask("PATCH "+endpointAPI, f, body, nil, func() error {
		again, err := newWaitPage(v, e)
		if err != nil {
			return err
		}
		f.Version = again.Form.Version
		offerSecret(f, p)
		again.Form = f
		return v.Page("endpoint-wait", again)
	}, func() error {
		if f.Value("then") == "test" { // what comes of it is shown on the page; without it there is a button
			if err := v.Do("POST "+endpointAPI+"/test", f, nil, nil); err != nil && ui.StatusOf(err) == 0 {
				return err
			}
		}
		if generated == "" {
			return v.Redirect(e.Path()+"/wait", "Secret saved. Signatures are verified from now on.")
		}
		return shown()
	})
}

// exampleBody is the body of the example of a request.
const exampleBody = `{"type":"order.paid","id":1}`

// harmlessText matches what can stand in double quotes of a shell. Headers and prefixes are texts of people.
var harmlessText = regexp.MustCompile(`^[A-Za-z0-9=_:. -]*$`)

// bodySignature returns how requests to the endpoint are signed. ok is false if a shell cannot do it in a line.
func (p *waitPage) bodySignature() (s verify.BodySignature, ok bool) {
	v := p.Verification
	if v == nil {
		return s, false
	}
	s, ok = verify.Config{Type: v.Type, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix,
		SignedContent: v.SignedContent}.BodySignature()
	return s, ok && harmlessText.MatchString(s.Header+s.Prefix)
}

// Curl is a request from a shell that the endpoint accepts, with the provider's secret in the variable SECRET if it
// verifies signatures. Empty if it would be rejected.
func (p *waitPage) Curl() string {
	curl := "curl " + ui.Plain(p.IngestURL) + " \\\n  -H \"Content-Type: application/json\" \\\n"
	s, ok := p.bodySignature()
	switch {
	case ok:
		encode := map[string]string{"hex": `-r | cut -d " " -f 1`, "base64": "-binary | openssl base64 -A"}[s.Encoding]
		return "BODY='" + exampleBody + "'\n" + curl + "  -H \"" + s.Header + ": " + s.Prefix +
			"$(printf %s \"$BODY\" | openssl dgst -" + s.Algorithm + " -hmac \"$SECRET\" " + encode + ")\" \\\n  -d \"$BODY\""
	case p.Verification != nil && p.Verification.Mode == "enforce":
		return ""
	}
	return curl + "  -d '" + exampleBody + "'"
}

// CurlNeedsSecret reports whether the example signs its body.
func (p *waitPage) CurlNeedsSecret() bool {
	_, ok := p.bodySignature()
	return ok
}
