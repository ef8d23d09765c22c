package pages

import (
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
)

// eventFilters are the filters of the list.
var eventFilters = []string{"status", "destination_id", "type", "since"}

// eventsPage is the data of the list of events.
type eventsPage struct {
	*ui.FilteredList[*model.EventRow]
	Destinations, Spans, Statuses []ui.Option
}

// listEvents shows what was sent to the tenant, newest first.
func listEvents(v *ui.Visit) error {
	list, err := ui.ListRows[*model.EventRow](v, "/v1/events", eventsPath, eventFilters)
	if err != nil {
		return err
	}
	named(v, list.Rows)
	all, err := endpointsOf(v)
	if err != nil {
		return err
	}
	p := eventsPage{FilteredList: list, Spans: []ui.Option{{Value: "1h", Text: v.T("the last hour")},
		{Value: "24h", Text: v.T("the last day")}, {Value: "7d", Text: v.T("the last week")}}}
	for _, status := range []string{"delivered", "failed,retrying", "pending", "skipped"} {
		text := v.T(status)
		if status == "failed,retrying" {
			text = v.T("failed or retrying")
		}
		p.Statuses = append(p.Statuses, ui.Option{Value: status, Text: text})
	}
	for _, e := range all {
		for i := range e.Destinations {
			p.Destinations = append(p.Destinations, ui.Option{Value: e.Destinations[i].ID, Text: e.Destinations[i].Title()})
		}
	}
	return v.Page("portal-events", p)
}

// delivery is a delivery of an event with its attempts, oldest first.
type delivery struct {
	wire.Delivery
	Name     string
	Path     string // of the destination's page; empty: it was removed
	Attempts []*model.Attempt
}

// eventPage is the data of the page of an event.
type eventPage struct {
	wire.Event
	Attempts   []*model.Attempt `json:"attempts"`
	Deliveries []*delivery      `json:"deliveries"`
	Targets    []ui.Option      `json:"-"` // destinations that a replay can go to
	Text       string           `json:"-"` // of the body, as far as it is shown
	Cut        bool             `json:"-"`
}

// maxBody is how much of a body the page shows, in bytes.
const maxBody = 64 << 10

// showEvent shows one event with its attempts.
func showEvent(v *ui.Visit) error {
	p := &eventPage{}
	if err := v.Get(eventAPI, nil, p); err != nil {
		return err
	}
	at, err := model.FindEndpoint(v, p.EndpointID)
	if err != nil {
		return err
	}
	names := model.DestinationNames(at)
	has := map[string]bool{} // by destination: it has the event
	for _, d := range p.Deliveries {
		if d.Name = model.DestinationName(names, d.DestinationID); names[d.DestinationID] != "" {
			d.Path = pathOf(p.EndpointID, d.DestinationID)
		}
		for _, a := range p.Attempts {
			if a.DestinationID == d.DestinationID {
				d.Attempts = append(d.Attempts, a)
			}
		}
		model.CompareAttempts(d.Attempts)
		has[d.DestinationID] = d.Status == event.Delivered
	}
	for i := range at.Destinations {
		d := &at.Destinations[i]
		if d.Enabled && p.PayloadErasedAt.IsZero() {
			p.Targets = append(p.Targets, ui.Option{Value: d.ID, Text: d.Title(), Chosen: !has[d.ID]})
		}
	}
	if len(p.Targets) == 1 {
		p.Targets[0].Chosen = true
	}
	if p.BodyEncoding != "base64" {
		p.Text, p.Cut = ui.Indented([]byte(p.Body)), len(p.Body) > maxBody
		p.Text = p.Text[:min(len(p.Text), maxBody)]
	}
	return v.Page("portal-event", p)
}

// replayEvent delivers the event again, to the destinations that are chosen.
func replayEvent(v *ui.Visit, f *ui.Form) error {
	chosen := slices.Clone(f.Values["destination_id"])
	if len(chosen) == 0 {
		return v.Redirect(v.Fill(eventPath), "Nothing was sent: choose at least one destination.")
	}
	var queued wire.ReplayResult
	if err := v.Do("POST "+eventAPI+"/replay", f, ui.Object{"destination_id": chosen}, &queued); err != nil {
		return err
	}
	message := "Nothing was queued: no destination is enabled."
	if queued.Queued > 0 {
		message = "Queued. The attempts appear here in a moment."
	}
	return v.Redirect(v.Fill(eventPath), message)
}
