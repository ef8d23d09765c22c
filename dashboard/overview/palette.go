package overview

import (
	"net/http"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/web"
)

// maxOffered is how many lines the palette offers.
const maxOffered = 12

// offer is a line of the palette.
type offer struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// commands are lines of the palette that create something.
var commands = []ui.MenuItem{
	{Path: ui.EndpointsPath + "/new", Name: "Create an endpoint"}, {Path: ui.NewReplayPath, Name: "Replay events"},
	{Path: ui.NewRecoveryPath, Name: "Recover failed events"}, {Path: ui.KeysPath, Name: "Create an API key"},
	{Path: ui.WithQuery(ui.EventsPath, nil, "status", "failed"), Name: "Show failed events"},
}

// showPalette answers with what a text may mean, as JSON for app.js: pages, commands, endpoints and destinations by
// their names, and things by their ids. All of it comes from memory.
func showPalette(v *ui.Visit) error {
	text := ui.Truncate(strings.TrimSpace(v.R.URL.Query().Get("q")), maxText)
	p := &searchPage{Text: text, lower: strings.ToLower(text)}
	found := []offer{}
	if to := ui.PageOf(text); to != "" && wholeID.MatchString(text) {
		found = append(found, offer{"Open " + text, to, "id"})
	}
	if text != "" {
		if to := p.addEndpoints(v); to != "" {
			found = append(found, offer{"Open " + text, to, "id"})
		}
	}
	for _, e := range p.Endpoints {
		found = append(found, offer{e.Text, ui.PageOf(e.Value), "endpoint"})
	}
	if len(p.Endpoints) == 1 {
		e := p.Endpoints[0]
		for _, x := range []ui.MenuItem{
			{Name: "Events of ", Path: ui.WithQuery(ui.EventsPath, nil, "endpoint_id", e.Value)},
			{Name: "Failed events of ", Path: ui.WithQuery(ui.EventsPath, nil, "endpoint_id", e.Value,
				"status", "failed,retrying")},
			{Name: "Settings of ", Path: ui.PageOf(e.Value) + "/settings"},
		} {
			found = append(found, offer{x.Name + e.Text, x.Path, "command"})
		}
	}
	for _, d := range p.Destinations {
		found = append(found, offer{d.Name, d.Path, "destination"})
	}
	p.addPages(v.MenuItems())
	for _, x := range p.Pages {
		found = append(found, offer{x.Name, x.Path, "page"})
	}
	for _, x := range commands {
		if p.has(x.Name) && v.CanWrite() {
			found = append(found, offer{x.Name, x.Path, "command"})
		}
	}
	return web.Answer(v.W, http.StatusOK, found[:min(len(found), maxOffered)])
}
