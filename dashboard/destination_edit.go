package dashboard

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// destinationPage is the data of the pages of one destination.
type destinationPage struct {
	*endpointPage
	Destination *destinationData    // nil: a new one
	Traffic     *destinationTraffic // nil: not read
}

func newDestinationPage(e *endpointData, d *destinationData, f *form) *destinationPage {
	p := &destinationPage{endpointPage: newEndpointPage(e), Destination: d}
	p.Form = f
	if d != nil {
		p.Facts = destinationFacts(d)
	}
	return p
}

// Self is the path of the destination's page.
func (p *destinationPage) Self() string { return p.DestinationPath(p.Destination) }

// Last reports whether it is the only destination of its endpoint, which cannot be removed.
func (p *destinationPage) Last() bool { return len(p.Destinations) == 1 }

// destinationValues returns what the fields of a destination show. Their names are the API's parameters.
func destinationValues(d *destinationData) url.Values {
	values := url.Values{}
	set := func(name, value string) { values[name] = []string{value} }
	set("name", textOf(d.Name))
	set("url", d.URL)
	set("enabled", boolText(d.Enabled))
	set("timeout_seconds", strconv.Itoa(d.TimeoutSeconds))
	set("max_in_flight", strconv.Itoa(d.MaxInFlight))
	set("rate_limit.per_second", "")
	set("rate_limit.burst", "")
	if r := d.RateLimit; r != nil {
		set("rate_limit.per_second", strconv.FormatFloat(r.PerSecond, 'f', -1, 64))
		set("rate_limit.burst", strconv.Itoa(r.Burst))
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		lines = append(lines, name+": "+d.Headers[name])
	}
	set("headers", strings.Join(lines, "\n"))
	set("filter.types", "")
	set("filter.body", "")
	if d.Filter != nil {
		set("filter.types", strings.Join(d.Filter.Types, "\n"))
		if len(d.Filter.Body) > 0 {
			set("filter.body", jsonText(d.Filter.Body))
		}
	}
	set("signing.secret", "") // write-only
	return values
}

// newDestination has the defaults of the API.
func newDestination() *destinationData {
	return &destinationData{Enabled: true, TimeoutSeconds: 15, MaxInFlight: 64}
}

// destinationBody returns the members of a destination that a form changes, or what is wrong with it.
func destinationBody(f *form, stored url.Values, d *destinationData) (map[string]any, *apiError) {
	x := newEdit(f, stored)
	x.set("name", asTextOrNull)
	x.set("url", func(text string) any { return strings.TrimSpace(text) })
	x.set("enabled", asBool)
	x.set("timeout_seconds", asNumber)
	x.set("max_in_flight", asNumber)
	x.rateLimit()
	if x.changed("headers") {
		headers, err := headersOf(x.value("headers"), d.Headers)
		if err != nil {
			return nil, err
		}
		x.body["headers"] = headers
	}
	if x.changed("filter.types", "filter.body") {
		types, body := asLines(x.value("filter.types")), asJSONOrNull(x.value("filter.body"))
		if x.body["filter"] = any(map[string]any{"types": types, "body": body}); len(types) == 0 && body == nil {
			x.body["filter"] = nil
		}
	}
	if secret := strings.TrimSpace(x.value("signing.secret")); secret != "" {
		x.body["signing"] = map[string]any{"secret": secret}
	}
	return x.body, nil
}

// rateLimit sets the rate limit. Without a burst it is that of one second.
func (x *edit) rateLimit() {
	const name = "rate_limit"
	if !x.changed(name+".per_second", name+".burst") {
		return
	}
	rate, burst := x.value(name+".per_second"), x.value(name+".burst")
	if strings.TrimSpace(rate) == "" {
		x.body[name] = nil
		return
	}
	limit := map[string]any{"per_second": asNumber(rate)}
	n, err := strconv.ParseFloat(strings.TrimSpace(rate), 64)
	switch {
	case strings.TrimSpace(burst) != "":
		limit["burst"] = asNumber(burst)
	case x.stored.Get(name+".burst") != "" && err == nil && n > 0 && n <= 1e6:
		limit["burst"] = int(math.Ceil(n))
	}
	x.body[name] = limit
}

// headersOf returns the headers in lines of the form Name: value, and null for the stored ones that are gone.
func headersOf(text string, stored map[string]string) (map[string]any, *apiError) {
	headers := map[string]any{}
	for i, line := range asLines(text) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !ok || twice {
			problem := "must be a name, a colon and a value, such as X-Team: billing"
			if twice {
				problem = "repeats the header " + name
			}
			return nil, &apiError{Status: http.StatusBadRequest, Param: "headers",
				Message: fmt.Sprintf("line %d %s", i+1, problem)}
		}
		headers[name] = strings.TrimSpace(value)
	}
	for name := range stored {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(kept string) bool {
			return strings.EqualFold(kept, name)
		}) {
			headers[name] = nil
		}
	}
	return headers, nil
}

// destinationFacts are the settings of a destination for people who may only read.
func destinationFacts(d *destinationData) []fact {
	values := destinationValues(d)
	facts := []fact{
		{Name: "URL", Value: d.URL, Code: true},
		{Name: "Events", Value: d.FilterText()},
		{Name: "Limits", Value: d.LimitText()},
		{Name: "Signing secret", Value: "ends with " + d.Signing.SecretLast4},
	}
	for _, x := range []fact{
		{Name: "Headers", Value: values.Get("headers"), Code: true},
		{Name: "Filter of types", Value: values.Get("filter.types"), Code: true},
		{Name: "Filter of bodies", Value: values.Get("filter.body"), Code: true},
	} {
		if x.Value != "" {
			facts = append(facts, x)
		}
	}
	return facts
}

// newDestinationForm shows the form of a new destination.
func newDestinationForm(v *visit) error {
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	return v.page("destination", newDestinationPage(e, nil, newForm(destinationValues(newDestination()), "")))
}

// addDestination adds a destination and shows its signing secret, once.
func addDestination(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	stored, d := destinationValues(newDestination()), &destinationData{}
	body, invalid := destinationBody(f, stored, newDestination())
	if invalid == nil {
		err = v.send("POST", e.api()+"/destinations", body, f.Nonce, d)
		invalid, _ = errors.AsType[*apiError](err)
	}
	if invalid != nil && invalid.Status != http.StatusForbidden && invalid.Status != http.StatusNotFound {
		v.status = f.reject(invalid, stored)
		p := newDestinationPage(e, nil, f)
		p.Open = true
		return v.page("destination", p)
	} else if err != nil {
		return err
	}
	return showSecret(v, e, d, "Added "+d.Title())
}

// showSecret shows the signing secret of one destination.
func showSecret(v *visit, e *endpointData, d *destinationData, title string) error {
	p := newEndpointPage(e)
	p.Warnings = d.Warnings
	return v.page("endpoint-created", created{endpointPage: p, Title: title, Secrets: []destinationData{*d},
		Repeated: v.replayed, Next: e.DestinationPath(d), NextText: "Go on to the destination"})
}

// showDestination shows one destination and the form of its settings.
func showDestination(v *visit) error {
	e, d, err := readDestination(v)
	if err != nil {
		return err
	}
	traffic, err := readTraffic(v, e)
	if err != nil {
		return err
	}
	p := newDestinationPage(e, d, editForm(destinationValues(d)))
	p.Traffic = traffic.of(d)
	return v.page("destination", p)
}

// DestinationStatus is the state of the destination, with what its requests of the last hour say of it.
func (p *destinationPage) DestinationStatus() status {
	if p.Traffic != nil {
		return p.Traffic.Status()
	}
	return p.Destination.Status()
}

// DestinationState explains it.
func (p *destinationPage) DestinationState() string {
	d, x := p.Destination, p.Traffic
	switch {
	case x == nil:
		return d.Why()
	case x.Why() != "":
		return x.Why()
	case !x.Known:
		return "Whether its requests succeed is not known at the moment."
	}
	return "Events are delivered to it as they arrive."
}

// saveDestination saves the settings of a destination.
func saveDestination(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, d, err := readDestination(v)
	if err != nil {
		return err
	}
	stored, p := destinationValues(d), newDestinationPage(e, d, f)
	p.Open = true
	body, invalid := destinationBody(f, stored, d)
	if invalid == nil && len(body) == 0 {
		return v.redirect(p.Self(), f.unchanged(stored))
	}
	if status, stale := f.isStale(stored); stale {
		v.status = status
		return v.page("destination", p)
	}
	after := &destinationData{}
	if invalid == nil {
		err = v.send("PATCH", e.destinationAPI(d), body, "", after)
		invalid, _ = errors.AsType[*apiError](err)
	}
	if invalid != nil && invalid.Status != http.StatusForbidden && invalid.Status != http.StatusNotFound {
		v.status = f.reject(invalid, stored)
		return v.page("destination", p)
	} else if err != nil {
		return err
	}
	if len(after.Warnings) > 0 {
		p = newDestinationPage(e, after, editForm(destinationValues(after)))
		p.Warnings = after.Warnings
		return v.page("destination", p)
	}
	return v.redirect(p.Self(), "Saved")
}

// patchDestination changes members of the destination in the path that need no form.
func patchDestination(v *visit, members map[string]any, message string) error {
	if _, err := v.form(); err != nil {
		return err
	}
	e, d, err := readDestination(v)
	if err != nil {
		return err
	}
	if err := v.send("PATCH", e.destinationAPI(d), members, "", nil); err != nil {
		return err
	}
	return v.redirect(e.DestinationPath(d), message)
}

func pauseDestination(v *visit) error {
	return patchDestination(v, map[string]any{"paused": true}, "Paused. Its deliveries wait.")
}

func unpauseDestination(v *visit) error {
	return patchDestination(v, map[string]any{"paused": false}, "Unpaused. What waited is delivered now.")
}

func enableDestination(v *visit) error {
	return patchDestination(v, map[string]any{"enabled": true}, "Enabled. New events are delivered to it.")
}

// rotateSecret gives a destination another signing secret and shows it, once.
func rotateSecret(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, d, err := readDestination(v)
	if err != nil {
		return err
	}
	after := &destinationData{}
	body := map[string]any{"overlap_seconds": asNumber(f.Value("overlap_seconds"))}
	if err := v.send("POST", e.destinationAPI(d)+"/rotate_secret", body, f.Nonce, after); err != nil {
		return err
	}
	return showSecret(v, e, after, "New signing secret of "+after.Title())
}

// removeDestination removes a destination from its endpoint.
func removeDestination(v *visit) error {
	if _, err := v.form(); err != nil {
		return err
	}
	e, d, err := readDestination(v)
	if err != nil {
		return err
	}
	if err := v.send("DELETE", e.destinationAPI(d), nil, "", nil); err != nil {
		return err
	}
	return v.redirect(e.Path(), "Removed "+truncate(d.Title(), 100))
}
