package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// settingsPage returns the page of an endpoint's settings.
func settingsPage(e *endpointData, f *form) *endpointPage {
	p := newEndpointPage(e)
	p.Tab, p.Form, p.Choices, p.Facts = e.Path()+"/settings", f, settingsChoices(), settingsFacts(e)
	return p
}

func settingsForm(v *visit) error {
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	return v.page("endpoint-settings", settingsPage(e, editForm(settingsValues(e))))
}

func saveSettings(v *visit) error {
	return saveEndpoint(v, "endpoint-settings", settingsPage, settingsValues, settingsBody)
}

// retriesPage returns the page of an endpoint's retry policy.
func retriesPage(e *endpointData, f *form) *endpointPage {
	p := newEndpointPage(e)
	p.Tab, p.Form, p.Choices = e.Path()+"/retries", f, settingsChoices()
	return p
}

func retriesOf(e *endpointData) url.Values { return retryValues(&e.RetryPolicy) }

func retriesForm(v *visit) error {
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	return v.page("endpoint-retries", retriesPage(e, editForm(retriesOf(e))))
}

func saveRetries(v *visit) error {
	return saveEndpoint(v, "endpoint-retries", retriesPage, retriesOf,
		func(f *form, stored url.Values, _ *endpointData) map[string]any { return retryBody(f, stored) })
}

// saveEndpoint saves a form of an endpoint and shows its page again if it is stale, rejected, or saved with warnings.
func saveEndpoint(v *visit, name string, page func(*endpointData, *form) *endpointPage,
	values func(*endpointData) url.Values, body func(*form, url.Values, *endpointData) map[string]any,
) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	stored, p := values(e), page(e, f)
	members := body(f, stored, e)
	if len(members) == 0 {
		return v.redirect(p.Tab, f.unchanged(stored))
	}
	if status, stale := f.isStale(stored); stale {
		v.status = status
		return v.page(name, p)
	}
	after := &endpointData{}
	err = v.send("PATCH", e.api(), members, "", after)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status != http.StatusForbidden && x.Status != http.StatusNotFound {
		v.status = f.reject(x, stored)
		return v.page(name, p)
	} else if err != nil {
		return err
	}
	if len(after.Warnings) > 0 {
		p = page(after, editForm(values(after)))
		p.Warnings = after.Warnings
		return v.page(name, p)
	}
	return v.redirect(p.Tab, "Saved")
}

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
func rotateURL(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	body := map[string]any{"overlap_seconds": asNumber(f.Value("overlap_seconds"))}
	if err := v.send("POST", e.api()+"/rotate-token", body, f.Nonce, nil); err != nil {
		return err
	}
	message := "The ingest URL is new. The old one has ended."
	if n, err := strconv.ParseFloat(f.Value("overlap_seconds"), 64); err == nil && n > 0 {
		message = "The ingest URL is new. The old one works for " + durationText(n) + " more."
	}
	return v.redirect(e.Path(), message)
}

// deleteEndpoint deletes the endpoint in the path if its name was typed.
func deleteEndpoint(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	if strings.TrimSpace(f.Value("confirm")) != strings.TrimSpace(plain(e.Name)) {
		p := settingsPage(e, editForm(settingsValues(e)))
		p.Open = true
		v.status = p.Form.setError(&apiError{Status: http.StatusBadRequest, Param: "confirm",
			Message: "The endpoint was not deleted: the name differs from " + plain(e.Name)})
		return v.page("endpoint-settings", p)
	}
	if err := v.send("DELETE", e.api(), nil, "", nil); err != nil {
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
