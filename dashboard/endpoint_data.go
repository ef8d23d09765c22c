package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// endpointData is an endpoint as the API returns it.
type endpointData struct {
	wire.Endpoint
	Destinations []destinationData `json:"destinations"`
}

// destinationData is a destination as the API returns it.
type destinationData struct{ wire.Destination }

// warningVerbs begin the messages that continue a sentence about their parameter; the others are sentences.
var warningVerbs = []string{"is", "has", "contained", "must", "never", "may", "does"}

// warningText is a warning as a sentence.
func warningText(x wire.Warning) string {
	subject := wordText("warning", x.Param)
	verb, _, _ := strings.Cut(x.Message, " ")
	if subject != "" && !slices.Contains(warningVerbs, verb) {
		subject = strings.TrimSuffix(subject, ":") + ":"
	}
	return sentence(strings.TrimSpace(subject + " " + x.Message))
}

// endpointsPath is the list of endpoints; the pages of one lie below it.
const endpointsPath = "/app/endpoints"

// endpointPath and destinationPath are the pages of one endpoint and of one of its destinations, as routes.
const (
	endpointPath    = endpointsPath + "/{endpoint}"
	destinationPath = endpointPath + "/destinations/{destination}"
)

// Path is the page of the endpoint.
func (e *endpointData) Path() string { return pageOf(e.ID) }

// Paths of an endpoint and of one of its destinations in the API.
const (
	endpointAPI    = "/v1/endpoints/{endpoint}"
	destinationAPI = endpointAPI + "/destinations/{destination}"
)

// Title is the name of a destination, or its address if it has none.
func (d *destinationData) Title() string {
	if name := textOf(d.Name); name != "" {
		return name
	}
	return d.Address()
}

// maxAddress bounds the address of a destination in bytes: in front of others it must leave room.
const maxAddress = 60

// Address is the host and the path of the destination: several can lie on one host.
func (d *destinationData) Address() string {
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return d.ID
	}
	return truncate(u.Host+strings.TrimSuffix(u.EscapedPath(), "/"), maxAddress)
}

// pathStates are the marks of the states of endpoints and destinations that say the same of a delivery.
var pathStates = map[string]string{"active": "delivered", "paused": "held", "disabled": "skipped"}

// Status is the state of a destination.
func (d *destinationData) Status() status {
	if mark := pathStates[d.State]; mark != "" {
		return status{Word: d.State, Mark: mark, On: d.State == "disabled" && textOf(d.StateReason) != "manual"}
	}
	return newStatus(d.State)
}

// Why explains the state of a destination.
func (d *destinationData) Why() string {
	switch reason := textOf(d.StateReason); {
	case d.State == "active":
		return ""
	case d.State == "paused" && !d.Paused:
		return "The endpoint is paused. Deliveries wait."
	case d.State == "paused":
		return "Paused by hand. Deliveries wait."
	default:
		return wordText("destination", reason)
	}
}

// State describes what happens to a new request to the endpoint and its deliveries.
func (e *endpointData) State() string {
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
		if reason := textOf(d.StateReason); reason != "" && reason != "manual" {
			text += " (" + reason + ")"
		}
		waiting = append(waiting, text)
	}
	total, active := e.Count(), len(e.Destinations)-len(waiting)
	switch {
	case len(waiting) == 0:
		return "Accepts requests and delivers them to " + total + "."
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
func (e *endpointData) Count() string {
	return plural(len(e.Destinations), "destination", "destinations")
}

// Status is the state of the endpoint itself; see State for what it means.
func (e *endpointData) Status() status {
	word := "active"
	switch {
	case !e.Enabled:
		word = "disabled"
	case e.Paused:
		word = "paused"
	}
	return status{Word: word, Mark: pathStates[word]}
}

// destination returns the destination with that id, nil if there is none.
func (e *endpointData) destination(id string) *destinationData {
	i := slices.IndexFunc(e.Destinations, func(d destinationData) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &e.Destinations[i]
}

// plural returns a number with the word for it.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1\u00a0" + one
	}
	return number(int64(n)) + "\u00a0" + many
}

var readEndpoint = thing[endpointData](endpointAPI)

// place is a destination with its endpoint.
type place struct {
	e *endpointData
	d *destinationData
}

// readDestination reads the endpoint and the destination in the path. A destination that does not exist is a
// [*web.Error].
func readDestination(v *visit) (place, error) {
	e, err := readEndpoint(v)
	if err != nil {
		return place{}, err
	}
	d := e.destination(v.vars["destination"])
	if d == nil {
		return place{}, web.Missing("The endpoint %s has no such destination. If it was removed, in another tab or by "+
			"somebody else, nothing was changed now.", plain(truncate(e.Name, 100)))
	}
	return place{e, d}, nil
}

// FilterText says which events are sent to a destination.
func (d *destinationData) FilterText() string {
	if d.Filter == nil {
		return "every event"
	}
	var parts []string
	if len(d.Filter.Types) > 0 {
		parts = append(parts, "types "+truncate(strings.Join(d.Filter.Types, ", "), 200))
	}
	if n := len(d.Filter.Body); n > 0 {
		parts = append(parts, plural(n, "value", "values")+" in the body")
	}
	return strings.Join(parts, ", and ")
}
