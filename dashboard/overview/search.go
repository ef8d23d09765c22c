package overview

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
)

// searchPage is what a search over everything has found.
type searchPage struct {
	Text         string
	Pages        []ui.MenuItem
	Endpoints    []ui.Option // the id as Value
	Destinations []ui.MenuItem
	Findings     []wire.Finding
	Events       []*model.EventRow
	EventsPath   string // list of all events with the text
	EventsError  string // why events could not be searched, or not all of them

	lower string
}

// Nothing reports whether nothing was found.
func (p *searchPage) Nothing() bool {
	return len(p.Pages)+len(p.Endpoints)+len(p.Destinations)+len(p.Findings)+len(p.Events) == 0 && p.EventsError == ""
}

// How many endpoints, destinations, findings and events a search shows, and how many endpoints it looks at.
const (
	maxFound    = 10
	maxSearched = 10_000
	maxText     = 200 // characters, as the search of events takes them
)

// wholeID is an id as it stands in URLs and answers.
var wholeID = regexp.MustCompile(`^[a-z]+_[0-9a-z]{26}$`)

// search opens the page of an id. It looks for any other text in the names of endpoints, destinations, pages and
// findings, and in the bodies and headers of events. A shortened id, copied from a page with its …, finds endpoints and
// destinations.
func search(v *ui.Visit) error {
	text := ui.Truncate(strings.Trim(strings.TrimSpace(v.R.URL.Query().Get("q")), "…."), maxText)
	if to := ui.PageOf(text); to != "" && wholeID.MatchString(text) {
		v.SendTo(to)
		return nil
	}
	p := &searchPage{Text: text, lower: strings.ToLower(text),
		EventsPath: ui.WithQuery(ui.EventsPath, nil, "q", text)}
	if text == "" {
		return v.Page("search", p)
	}
	p.addPages(v.MenuItems())
	if to := p.addEndpoints(v); to != "" {
		v.SendTo(to)
		return nil
	}
	if err := p.addFindings(v); err != nil {
		return err
	}
	return p.addEvents(v)
}

// has reports whether one of the texts contains what is searched for.
func (p *searchPage) has(texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(strings.ToLower(text), p.lower) {
			return true
		}
	}
	return false
}

func (p *searchPage) addPages(items []ui.MenuItem) {
	for _, x := range items {
		if p.has(x.Name) {
			p.Pages = append(p.Pages, ui.MenuItem{Path: x.Target(), Name: x.Name})
		}
		p.addPages(x.Tabs)
	}
}

// addEndpoints adds endpoints and destinations. It returns the page of a destination whose id was searched for.
func (p *searchPage) addEndpoints(v *ui.Visit) (to string) {
	all, _ := v.Deps.Control.Endpoints(v.Person.Account, 0, maxSearched)
	for _, e := range all {
		if len(p.Endpoints) < maxFound && p.has(e.Name, e.ID) {
			p.Endpoints = append(p.Endpoints, ui.Option{Value: e.ID, Text: e.Name})
		}
		for i := range e.Destinations {
			d := &e.Destinations[i]
			page := ui.DestinationPageOf(e.ID, d.ID)
			if d.ID == p.Text {
				return page
			}
			if name := ui.NameOfDestination(d); len(p.Destinations) < maxFound && p.has(name, d.ID) {
				p.Destinations = append(p.Destinations, ui.MenuItem{Path: page, Name: e.Name + " → " + name})
			}
		}
	}
	return ""
}

// addFindings adds findings of the newest hundred. A relay without the search for leaks has none.
func (p *searchPage) addFindings(v *ui.Visit) error {
	var list wire.List[wire.Finding]
	_, err := v.TryGet("/v1/findings", url.Values{"limit": {"100"}}, &list)
	if err != nil && ui.StatusOf(err) != http.StatusNotFound {
		return err
	}
	for _, f := range list.Data {
		if len(p.Findings) < maxFound && p.has(f.Name, ui.TextOf(f.Masked)) {
			p.Findings = append(p.Findings, f)
		}
	}
	return nil
}

func (p *searchPage) addEvents(v *ui.Visit) error {
	var list wire.EventSearch
	err := v.Get("/v1/events", url.Values{"q": {p.Text}, "limit": {"10"}}, &list)
	x, refused := ui.BadRequest(err)
	switch {
	case refused:
		p.EventsError = ui.Sentence(x.Message)
	case ui.IsUnavailable(err), ui.StatusOf(err) == http.StatusTooManyRequests:
		p.EventsError = ui.MessageOf(err)
	case err != nil:
		return err
	case list.Partial && len(list.Data) == 0:
		p.EventsError = "Not all events of the last 24 hours were searched yet."
	}
	p.Events = model.EventRows(list.Data)
	return v.Page("search", p)
}
