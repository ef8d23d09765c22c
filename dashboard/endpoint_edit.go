package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// endpointForm is a form of an endpoint that is saved on its own page.
type endpointForm struct {
	page, tab string // name of the template, and path of the page below that of the endpoint
	values    func(*endpointData) url.Values
	body      func(*form, url.Values, *endpointData) map[string]any
}

var (
	settingsForm = endpointForm{"endpoint-settings", "/settings", settingsValues, settingsBody}
	retriesForm  = endpointForm{"endpoint-retries", "/retries", retryValues, retryBody}
)

// show shows the page with the stored values.
func (x endpointForm) show(v *visit, e *endpointData) error {
	return x.draw(v, e, editForm(x.values(e)))
}

// draw shows the page with a form.
func (x endpointForm) draw(v *visit, e *endpointData, f *form) error {
	p := newEndpointPage(e)
	p.Tab, p.Form, p.Choices, p.Facts = e.Path()+x.tab, f, settingsChoices(verifyNothing), settingsFacts(e)
	p.Open, p.Warnings = f.Param == "confirm", e.Warnings
	return v.page(x.page, p)
}

// save saves the form and shows its page again if it is stale, rejected, or saved with warnings.
func (x endpointForm) save(v *visit, f *form, e *endpointData) error {
	stored, after, back := x.values(e), &endpointData{}, e.Path()+x.tab
	e.Warnings = nil
	done, err := v.save(saving{form: f, stored: stored, body: x.body(f, stored, e), call: "PATCH " + endpointAPI,
		out: after, back: back, again: func() error { return x.draw(v, e, f) }})
	switch {
	case !done:
		return err
	case len(after.Warnings) > 0:
		return x.show(v, after)
	}
	return v.redirect(back, "Saved")
}

// verifyNothing is the choice not to verify signatures.
var verifyNothing = option{Value: modeOff, Text: "Do not verify", Hint: "Whoever knows the ingest URL can send events."}

// settingsFacts are an endpoint's settings for people who may only read.
func settingsFacts(e *endpointData) []fact {
	none := func(text string) string {
		if text == "" {
			return "none"
		}
		return text
	}
	values := settingsValues(e)
	facts := []fact{
		{Name: "Description", Value: none(values.Get("description"))},
		{Name: "Signatures", Value: e.VerificationText()},
		{Name: "Event type", Value: none(values.Get("type_source")), Code: e.TypeSource != nil},
		{Name: "Duplicates", Value: "not looked for"},
		{Name: "Response", Value: values.Get("response.status") + " " + e.Response.ContentType},
		{Name: "Response body", Value: none(e.Response.Body), Code: e.Response.Body != ""},
		{Name: "Limit", Value: e.limitText()},
		{Name: "Metadata", Value: none(values.Get("metadata")), Code: len(e.Metadata) > 0},
		{Name: "Alerts", Value: e.alertText()},
	}
	if e.Dedup != nil {
		facts[3].Value = e.Dedup.Key + " within " + durationText(float64(e.Dedup.WindowSeconds))
	}
	return facts
}

// VerificationText says how signatures are verified.
func (e *endpointData) VerificationText() string {
	v := e.Verification
	switch {
	case v == nil && presetOf(e.Provider) != nil && presetOf(e.Provider).Signs():
		return "not verified: whoever knows the ingest URL can send events"
	case v == nil:
		return "none: whoever knows the ingest URL can send events"
	}
	text := map[string]string{
		"enforce": "enforced: a wrong one gets 401 and is stored as rejected",
		"observe": "observed: events with a wrong one are delivered too, marked",
	}[v.Mode]
	if v.SecretLast4 != "" {
		text += "; the secret ends with " + v.SecretLast4
	}
	return text
}

func (e *endpointData) limitText() string {
	var parts []string
	if l := e.IngestLimit; l != nil {
		if l.EventsPerSecond != nil {
			parts = append(parts, plural(*l.EventsPerSecond, "event", "events")+" a second")
		}
		if l.BytesPerSecond != nil {
			parts = append(parts, byteSize(*l.BytesPerSecond)+" a second")
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " and ")
}

func (e *endpointData) alertText() string {
	a := e.Alerts
	if !a.Enabled {
		return "off"
	}
	text := "on"
	if a.Channels != nil {
		text += ", by " + strings.Join(a.Channels, ", ")
	}
	if a.ConsecutiveFailures != nil {
		text += ", after " + strconv.Itoa(*a.ConsecutiveFailures) + " failures in a row"
	}
	if a.FailureRatePercent != nil {
		text += ", above " + strconv.Itoa(*a.FailureRatePercent) + "\u00a0% failures"
	}
	if a.MutedUntil != nil {
		text += ", muted until " + *a.MutedUntil
	}
	return text
}

// rotateURL gives the endpoint another ingest URL.
func rotateURL(v *visit, f *form, e *endpointData) error {
	body := members{"overlap_seconds": asNumber(f.Value("overlap_seconds"))}
	if err := v.do("POST "+endpointAPI+"/rotate-token", f, body, nil); err != nil {
		return err
	}
	message := "The ingest URL is new. The old one has ended."
	if n, err := strconv.ParseFloat(f.Value("overlap_seconds"), 64); err == nil && n > 0 {
		message = "The ingest URL is new. The old one works for " + durationText(n) + " more."
	}
	return v.redirect(e.Path(), message)
}

// deleteEndpoint deletes the endpoint in the path if its name was typed.
func deleteEndpoint(v *visit, f *form, e *endpointData) error {
	if strings.TrimSpace(f.Value("confirm")) != strings.TrimSpace(plain(e.Name)) {
		shown := editForm(settingsValues(e))
		v.status = shown.setError(&apiError{Status: http.StatusBadRequest, Param: "confirm",
			Message: "The endpoint was not deleted: the name differs from " + plain(e.Name)})
		return settingsForm.draw(v, e, shown)
	}
	if err := v.do("DELETE "+endpointAPI, f, nil, nil); err != nil {
		return err
	}
	return v.redirect(endpointsPath, "Endpoint deleted. Its events stay listed until their retention ends.")
}

// SecretState says which provider's secret is stored.
func (e *endpointData) SecretState() string {
	switch v := e.Verification; {
	case v == nil:
		return "None is stored"
	case v.SecretLast4 == "":
		return "One is stored"
	default:
		return "One is stored, it ends with " + v.SecretLast4
	}
}

// Mode is how the endpoint verifies signatures.
func (e *endpointData) Mode() string { return e.mode() }

// Confirm is the form that deletes the endpoint.
func (p *endpointPage) Confirm() *form {
	if p.Form != nil && p.Form.Param == "confirm" {
		return p.Form
	}
	return nil
}
