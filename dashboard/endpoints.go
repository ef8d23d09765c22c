package dashboard

import (
	"net/url"
	"strings"
)

// endpointsPage is the data of the list of endpoints.
type endpointsPage struct {
	*filteredList
	Endpoints []*endpointRow
	NoTraffic bool // the requests could not be read
	BaseURL   string
}

// listEndpoints shows the endpoints that contain a text, newest first.
func listEndpoints(v *visit) (err error) {
	p := endpointsPage{BaseURL: v.cfg.BaseURL}
	if p.filteredList, err = listRows(v, "/v1/endpoints", endpointsPath, []string{"q"}, &p.Endpoints); err != nil {
		return err
	}
	if len(p.Endpoints) > 0 {
		if p.NoTraffic, err = addTraffic(v, p.Endpoints); err != nil {
			return err
		}
	}
	return v.page("endpoints", p)
}

// endpointPage is what every page of one endpoint shows.
type endpointPage struct {
	*endpointData
	Tab   string // path of the current tab
	Retry retryView
	Form  *form
	// Warnings are those of the API about what was saved just now.
	Warnings []warningData
	Facts    []fact
	Choices  map[string][]option
	Open     bool // show the part of the form that is closed otherwise
}

// fact is a setting for people who may only read.
type fact struct {
	Name, Value string
	Code        bool
}

func newEndpointPage(e *endpointData) *endpointPage {
	return &endpointPage{endpointData: e, Tab: e.Path(), Retry: newRetryView(&e.RetryPolicy)}
}

// OnlyHere reports whether the ingest URL names this machine alone, so no provider on the internet reaches it.
func (p *endpointPage) OnlyHere() bool { return isOnlyHere(p.IngestURL) }

// isOnlyHere reports whether a URL names this machine alone.
func isOnlyHere(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (isLoopback(u.Hostname()) || strings.HasSuffix(u.Hostname(), ".localhost"))
}

// Tabs are the pages of an endpoint.
func (p *endpointPage) Tabs() []menuItem {
	return []menuItem{
		{Path: p.Path(), Name: "Destinations"}, {Path: p.Path() + "/retries", Name: "Retries"},
		{Path: p.Path() + "/workbench", Name: "Workbench"},
		{Path: p.Path() + "/settings", Name: "Settings"}, {Path: p.Path() + "/wait", Name: "Set-up"},
	}
}

// showEndpoint shows the destinations of an endpoint with their traffic, what waits, what fires, and the retry policy.
func showEndpoint(v *visit) error {
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	p, err := newEndpointOverview(v, e)
	if err != nil {
		return err
	}
	return v.page("endpoint", p)
}

// patchEndpoint changes members of the endpoint in the path that need no form and returns to its page.
func patchEndpoint(v *visit, members map[string]any, message string) error {
	if _, err := v.form(); err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	if err := v.send("PATCH", e.api(), members, "", nil); err != nil {
		return err
	}
	return v.redirect(e.Path(), message)
}

func pauseEndpoint(v *visit) error {
	return patchEndpoint(v, map[string]any{"paused": true}, "Paused. Events are stored and wait.")
}

func unpauseEndpoint(v *visit) error {
	return patchEndpoint(v, map[string]any{"paused": false}, "Unpaused. What waited is delivered now.")
}

func enableEndpoint(v *visit) error {
	return patchEndpoint(v, map[string]any{"enabled": true}, "Enabled. Its ingest URL accepts requests.")
}

// testEndpoint sends a test event and shows it, on the page of the set-up if the form asks for that.
func testEndpoint(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	var sent struct {
		ID string `json:"id"`
	}
	if err := v.send("POST", e.api()+"/test", map[string]any{}, f.Nonce, &sent); err != nil {
		return err
	}
	to := e.Path() + "/wait"
	if f.Value("then") != "wait" && v.has("/app/events/{event}") {
		to = "/app/events/" + url.PathEscape(sent.ID)
	}
	return v.redirect(to, "Test event sent")
}
