package dashboard

import (
	"net/url"
	"strings"
)

// endpointsPage is the data of the list of endpoints.
type endpointsPage struct {
	*filteredList[*endpointRow]
	NoTraffic bool // the requests could not be read
	BaseURL   string
}

// listEndpoints shows the endpoints that contain a text, newest first.
func listEndpoints(v *visit) (err error) {
	p := endpointsPage{BaseURL: v.cfg.BaseURL}
	if p.filteredList, err = listRows[*endpointRow](v, "/v1/endpoints", endpointsPath, []string{"q"}); err != nil {
		return err
	}
	if len(p.Rows) > 0 {
		if p.NoTraffic, err = addTraffic(v, p.Rows); err != nil {
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
	Choices  map[string][]option
	Open     bool // show the part of the form that is closed otherwise
}

func newEndpointPage(e *endpointData) *endpointPage {
	return &endpointPage{endpointData: e, Tab: e.Path(), Retry: newRetryView(&e.RetryPolicy)}
}

// isOnlyHere reports whether a URL names this machine alone, so nobody on the internet reaches it.
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
func showEndpoint(v *visit, e *endpointData) error {
	p, err := newEndpointOverview(v, e)
	if err != nil {
		return err
	}
	return v.page("endpoint", p)
}

// testEndpoint sends a test event and shows it, on the page of the set-up if the form asks for that.
func testEndpoint(v *visit, f *form, e *endpointData) error {
	var sent struct {
		ID string `json:"id"`
	}
	if err := v.do("POST "+endpointAPI+"/test", f, nil, &sent); err != nil {
		return err
	}
	to := e.Path() + "/wait"
	if f.Value("then") != "wait" {
		to = pageOf(sent.ID)
	}
	return v.redirect(to, "Test event sent")
}
