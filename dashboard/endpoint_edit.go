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
	p.Tab, p.Form, p.Choices = e.Path()+x.tab, f, settingsChoices(verifyNothing)
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

// ProviderSigns reports whether the provider signs its requests.
func (e *endpointData) ProviderSigns() bool {
	p := presetOf(e.Provider)
	return p != nil && p.Signs()
}

// Confirm is the form that deletes the endpoint.
func (p *endpointPage) Confirm() *form {
	if p.Form != nil && p.Form.Param == "confirm" {
		return p.Form
	}
	return nil
}
