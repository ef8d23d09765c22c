package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/web"
)

// newEndpoint is the data of the pages that create an endpoint.
type newEndpoint struct {
	*endpointPage
	Presets []preset
	Preset  *preset // the chosen one; nil: first choose one
}

// newEndpointForm shows the providers, and when one is chosen its form.
func newEndpointForm(v *visit) error {
	p := newEndpoint{Presets: presets, endpointPage: &endpointPage{}}
	provider := v.r.URL.Query().Get("provider")
	if provider == "" {
		return v.page("endpoint-new", p)
	}
	if p.Preset = presetOf(provider); p.Preset == nil {
		return web.Missing("There is no such provider. Choose one of the list, or the one for another signature.")
	}
	p.show(newForm(createValues(p.Preset), ""))
	return v.page("endpoint-new", p)
}

// show makes the page show a form.
func (p *newEndpoint) show(f *form) {
	p.endpointData, p.Form = newSettings(p.Preset), f
	p.Choices = settingsChoices(option{Value: modeOff, Text: "Do not verify yet", Hint: "For a secret " +
		"that is known only after the URL was entered at the provider: the next page asks for it. Until then whoever knows " +
		"the ingest URL can send events."})
	inFront := strings.Fields("name destinations store_only verification.secret verification.mode " +
		signatureTexts[0].names)
	p.Open = f.Param != "" && !slices.Contains(inFront, f.Param)
}

// createValues returns the defaults of a new endpoint's form.
func createValues(p *preset) url.Values {
	values := settingsValues(newSettings(p))
	values.Set("destinations", "")
	return values
}

// created is the data of the page that shows secrets: after an endpoint or a destination was created, or a secret
// rotated.
type created struct {
	*endpointPage
	Title   string
	Preset  *preset
	Secrets []destinationData // with Signing.Secret
	// Repeated says that the form was sent before, so its secrets have been shown.
	Repeated bool
	Next     string // path of the page to go on with
	NextText string
}

// createEndpoint creates an endpoint and shows the signing secrets of its destinations, once.
func createEndpoint(v *visit, f *form) error {
	p := newEndpoint{Presets: presets, Preset: presetOf(f.Value("provider")), endpointPage: &endpointPage{}}
	if p.Preset == nil {
		return web.Invalid("", "The form names no provider. Open the page again and choose one.")
	}
	if x := unusableSecret(f, p.Preset); x != nil {
		v.status = f.setError(x)
		p.show(f)
		return v.page("endpoint-new", p)
	}
	stored := createValues(p.Preset)
	body := settingsBody(f, stored, newSettings(p.Preset))
	body["provider"], body["destinations"] = p.Preset.Provider, newDestinations(f)
	e := &endpointData{}
	err := nameLine(v.do("POST /v1/endpoints", f, body, e))
	if v.refused(f, err) {
		p.show(f)
		return v.page("endpoint-new", p)
	} else if err != nil {
		return err
	}
	page := newEndpointPage(e)
	page.Warnings = e.Warnings
	return v.page("endpoint-created", created{endpointPage: page, Title: "Created " + e.Name, Preset: p.Preset,
		Secrets: e.Destinations, Repeated: v.replayed, Next: e.Path() + "/wait", NextText: "Next: connect the provider"})
}

// unusableSecret says why a new endpoint would not verify signatures although nobody has chosen that, nil if it would:
// a page that is shown again has lost the secret that was entered.
func unusableSecret(f *form, p *preset) *apiError {
	given, off := f.Value("verification.secret") != "", f.Value("verification.mode") == modeOff
	x := &apiError{Status: http.StatusBadRequest}
	switch {
	case !p.Signs() || given != off:
		return nil
	case off:
		x.Param, x.Message = "verification.mode", "With a secret choose enforce or observe, or leave the secret empty"
	default:
		x.Param, x.Message = "verification.secret", "The secret is missing. Enter it, or choose Do not verify yet"
	}
	return x
}

// newDestinations are the destinations of a new endpoint, one a line, disabled if it only stores events.
func newDestinations(f *form) []any {
	all := []any{}
	for _, address := range asLines(f.Value("destinations")) {
		if f.Value("store_only") == "true" {
			all = append(all, map[string]any{"url": address, "enabled": false})
		} else {
			all = append(all, address)
		}
	}
	return all
}

// nameLine makes an error at a destination name the line of the field that holds all of them.
func nameLine(err error) error {
	const list = "destinations["
	if e, ok := errors.AsType[*apiError](err); ok && strings.HasPrefix(e.Param, list) {
		index, _, _ := strings.Cut(e.Param[len(list):], "]")
		e.Param, e.Message = "destinations", "line "+lineNumber(index)+": "+e.Message
	}
	return err
}
