// Package model is what the pages of several areas show of an endpoint, an event and an alert.
package model

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
)

// FindEndpoint reads an endpoint; without an id if it was deleted or cannot be read now.
func FindEndpoint(v *ui.Visit, id string) (*Endpoint, error) {
	e := &Endpoint{}
	err := v.Get(ui.APIOf(id), nil, e)
	if ui.IsUnavailable(err) || ui.StatusOf(err) == http.StatusNotFound {
		return e, nil
	}
	return e, err
}

// Endpoint is an endpoint as the API returns it.
type Endpoint struct {
	wire.Endpoint
	Destinations []Destination `json:"destinations"`
}

// Destination is a destination as the API returns it.
type Destination struct{ wire.Destination }

// Path is the page of the endpoint.
func (e *Endpoint) Path() string { return ui.PageOf(e.ID) }

// Title is the name of a destination, or its address if it has none.
func (d *Destination) Title() string {
	if name := ui.TextOf(d.Name); name != "" {
		return name
	}
	return d.Address()
}

// maxAddress bounds the address of a destination in bytes: in front of others it must leave room.
const maxAddress = 60

// Address is the host and the path of the destination: several can lie on one host.
func (d *Destination) Address() string {
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return d.ID
	}
	return ui.Truncate(u.Host+strings.TrimSuffix(u.EscapedPath(), "/"), maxAddress)
}

// pathStates are the marks of the states of endpoints and destinations that say the same of a delivery.
var pathStates = map[string]string{"active": "delivered", "paused": "held", "disabled": "skipped"}

// Status is the state of a destination.
func (d *Destination) Status() ui.Status {
	if mark := pathStates[d.State]; mark != "" {
		return ui.Status{Word: d.State, Mark: mark, On: d.State == "disabled" && ui.TextOf(d.StateReason) != "manual"}
	}
	return ui.NewStatus(d.State)
}

// Why explains the state of a destination.
func (d *Destination) Why() string {
	switch reason := ui.TextOf(d.StateReason); {
	case d.State == "active":
		return ""
	case d.State == "paused" && !d.Paused:
		return "The endpoint is paused. Deliveries wait."
	case d.State == "paused":
		return "Paused by hand. Deliveries wait."
	default:
		return ui.WordText("destination", reason)
	}
}

// State describes what happens to a new request to the endpoint and its deliveries.
func (e *Endpoint) State() string {
	return cmp.Or(e.Exception(), "Accepts requests and delivers them to "+e.Count()+".")
}

// Exception is the State of an endpoint that does not deliver all that it accepts; empty otherwise.
func (e *Endpoint) Exception() string {
	switch {
	case !e.Enabled:
		return "Its ingest URL answers 404 and events cannot be sent to it. What is stored stays."
	case e.Paused:
		return "Requests are accepted and stored. Nothing is delivered until you unpause it."
	}
	var waiting []string
	for i := range e.Destinations {
		d := &e.Destinations[i]
		if d.State == "active" {
			continue
		}
		text := d.Title() + " is " + d.State
		switch reason := ui.TextOf(d.StateReason); reason {
		case "", string(event.Manual):
		case string(event.BreakerOpen):
			text += " after repeated failures"
		default:
			text += " (" + reason + ")"
		}
		waiting = append(waiting, text)
	}
	total, active := e.Count(), len(e.Destinations)-len(waiting)
	switch {
	case len(waiting) == 0:
		return ""
	case active == 0 && len(waiting) > 1:
		return "Accepts and stores requests. None of its " + total + " is active."
	case active == 0:
		return "Accepts and stores requests. Nothing is delivered: " + waiting[0] + "."
	case len(waiting) > 3:
		return fmt.Sprintf("Delivers to %d of %s.", active, total)
	}
	return fmt.Sprintf("Delivers to %d of %s: %s.", active, total, strings.Join(waiting, ", "))
}

// Count is the number of its destinations in words.
func (e *Endpoint) Count() string {
	return ui.Plural(len(e.Destinations), "destination", "destinations")
}

// Status is the state of the endpoint itself; see State for what it means.
func (e *Endpoint) Status() ui.Status {
	word := "active"
	switch {
	case !e.Enabled:
		word = "disabled"
	case e.Paused:
		word = "paused"
	}
	return ui.Status{Word: word, Mark: pathStates[word]}
}

// Destination returns the destination with that id, nil if there is none.
func (e *Endpoint) Destination(id string) *Destination {
	i := slices.IndexFunc(e.Destinations, func(d Destination) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &e.Destinations[i]
}

// FilterText says which events are sent to a destination.
func (d *Destination) FilterText() string {
	if d.Filter == nil {
		return "every event"
	}
	var parts []string
	if len(d.Filter.Types) > 0 {
		parts = append(parts, "types "+ui.Truncate(strings.Join(d.Filter.Types, ", "), 200))
	}
	if n := len(d.Filter.Body); n > 0 {
		parts = append(parts, ui.Plural(n, "value", "values")+" in the body")
	}
	if len(d.Filter.Match) > 0 {
		parts = append(parts, "a pattern")
	}
	if d.Filter.When != "" {
		parts = append(parts, "when "+ui.Truncate(d.Filter.When, 200))
	}
	return strings.Join(parts, ", and ")
}

// Problem says how many requests have failed; empty if none has.
func Problem(requests, failed int64) string {
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s in the last hour failed.", ui.Number(failed),
		ui.Plural(int(requests), "request", "requests"))
}

// HourStrip returns the strip of the last 24 hours, of which the last is that of now.
func HourStrip(name string, hours []wire.Hour, now time.Time) ui.Strip {
	line := ui.NewTimeline(now, time.Hour, 24)
	s := ui.Strip{Classes: slices.Repeat([]string{ui.ColourNone}, line.Steps)}
	var requests, failed int64
	for _, h := range hours {
		if i, ok := line.Index(time.Time(h.At)); ok {
			s.Classes[i] = ui.RequestsClass(h.Requests, h.Failed)
			requests, failed = requests+h.Requests, failed+h.Failed
		}
	}
	s.Title = fmt.Sprintf("%s, last 24 h: %s, %s failed", name, ui.Plural(int(requests), "request", "requests"),
		ui.Number(failed))
	return s
}

// HoursOf returns steps without what a strip does not show.
func HoursOf(steps []wire.MeasuredStep) []wire.Hour {
	hours := make([]wire.Hour, len(steps))
	for i, s := range steps {
		hours[i] = wire.Hour{At: s.At, Requests: s.Requests, Delivered: s.Delivered, Failed: s.Failed}
	}
	return hours
}

// DestinationNames returns the names of an endpoint's destinations by id.
func DestinationNames(e *Endpoint) map[string]string {
	names := make(map[string]string, len(e.Destinations))
	for i := range e.Destinations {
		names[e.Destinations[i].ID] = e.Destinations[i].Title()
	}
	return names
}

// DestinationName returns the name of a destination, or its id if it has none.
func DestinationName(names map[string]string, id string) string { return cmp.Or(names[id], id) }
