package model

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
)

// IsOpen reports whether a delivery with that status has not ended.
func IsOpen(s event.Status) bool { return s == event.Pending || s == event.Retrying || s == event.Held }

// EventRow is an event in a list, as the API says it.
type EventRow struct {
	wire.EventRow
	EndpointName string            `json:"-"` // empty: the endpoint was deleted, or could not be read
	names        map[string]string // of its destinations
}

// EventRows returns rows of an answer, without the names of their endpoints.
func EventRows(of []wire.EventRow) []*EventRow {
	rows := make([]*EventRow, len(of))
	for i := range of {
		rows[i] = &EventRow{EventRow: of[i]}
	}
	return rows
}

// Explanation returns why the event has its status, as text and as data.
func (e *EventRow) Explanation() (string, wire.Why) { return e.Why, e.WhyDetails }

// Captured reports whether the event was stored and had no destination to go to.
func (e *EventRow) Captured() bool { return IsCaptured(&e.EventBase, len(e.Deliveries)) }

// Held reports whether the event waits at every destination where it is open.
func (e *EventRow) Held() bool { return IsHeld(&e.EventBase, e.states()) }

func (e *EventRow) states() []event.Status {
	all := make([]event.Status, len(e.Deliveries))
	for i, d := range e.Deliveries {
		all[i] = d.Status
	}
	return all
}

// IsCaptured reports whether an event with that many deliveries was stored and had no destination to go to.
func IsCaptured(e *wire.EventBase, deliveries int) bool {
	return deliveries == 0 && e.Status == event.Skipped && ui.TextOf(e.Reason) == string(event.NoDestination)
}

// IsHeld reports whether an event waits at every destination where it is open, from the states of its deliveries.
func IsHeld(e *wire.EventBase, at []event.Status) bool {
	return e.Status == event.Pending && slices.Contains(at, event.Held) &&
		!slices.Contains(at, event.Pending) && !slices.Contains(at, event.Retrying)
}

// Marks are the states of the event at its destinations, with their names where those are known.
func (e *EventRow) Marks() ui.Marks {
	all := make([]ui.Status, len(e.Deliveries))
	for i, d := range e.Deliveries {
		all[i] = ui.NewStatus(string(d.Status))
		if name := e.names[d.DestinationID]; name != "" {
			all[i].Word = name + ": " + all[i].Word
		}
	}
	return ui.NewMarks(all)
}

// Answered says what a destination answered last that does not have the event, such as "ledger answered 500"; empty if
// none did.
func (e *EventRow) Answered() string {
	if a := e.Answer(); a != nil {
		return a.Name + " answered " + a.Status
	}
	return ""
}

// Answer is the status that a destination of that name answered.
type Answer struct{ Name, Status string }

// Answer is what a destination answered last that does not have the event; nil if none did.
func (e *EventRow) Answer() *Answer {
	for _, d := range e.Deliveries {
		if name := e.names[d.DestinationID]; name != "" && d.LastResponseStatus != nil && d.Status != event.Delivered &&
			d.Status != event.Skipped {
			return &Answer{name, strconv.Itoa(*d.LastResponseStatus)}
		}
	}
	return nil
}

// SetNames adds the names of the event's endpoint and destinations, from memory.
func (e *EventRow) SetNames(v *ui.Visit) {
	endpoint := ui.EndpointOf(v, e.EndpointID)
	if endpoint == nil {
		return
	}
	e.EndpointName, e.names = endpoint.Name, make(map[string]string, len(endpoint.Destinations))
	for i := range endpoint.Destinations {
		d := &endpoint.Destinations[i]
		e.names[d.ID] = ui.NameOfDestination(d)
	}
}

// ReplayFilters are the filters by which a replay selects.
func ReplayFilters() (names []string) {
	for _, f := range event.Filters {
		if f.Replay {
			names = append(names, f.Name)
		}
	}
	return names
}

// ReplayLink returns the path of the form of a new replay with the selection of a list of events, or "" if a replay
// selects by none of its filters, or cannot select by one of them. oldest is the last event of the list.
func ReplayLink(query url.Values, oldest *EventRow) string {
	selected := ui.FiltersOf(query, ReplayFilters())
	n := len(selected)
	for _, name := range []string{"since", "until"} {
		if query.Has(name) {
			selected.Set(name, query.Get(name))
		}
	}
	if n == 0 || oldest == nil || len(selected) < len(query)-1 { // a query has a limit too
		return ""
	}
	if !query.Has("since") {
		selected.Set("since", time.Time(oldest.ReceivedAt).UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	return ui.NewReplayPath + "?" + selected.Encode()
}

// EventCounts counts the newest events that match some filters.
type EventCounts struct{ wire.CountedEvents }

// StatusCount is the number of events of one status.
type StatusCount struct {
	Name, Path string
	Count      string // empty: none; with a plus if older events were not counted
	Current    bool
}

// CountEvents counts events; nil if the service does not answer within a second: a page is shown without counts then.
func CountEvents(v *ui.Visit, query url.Values) (*EventCounts, error) {
	n := &EventCounts{}
	if err := v.GetSoon("/v1/events/counts", query, n); err != nil {
		if ui.StatusOf(err) != 0 {
			err = nil
		}
		return nil, err
	}
	return n, nil
}

// countedStatuses are the statuses in the order of the tabs.
var countedStatuses = []event.Status{event.Delivered, event.Failed, event.Retrying, event.Pending, event.Skipped,
	event.Rejected}

// CountOf returns the number of events of a status.
func CountOf(n *wire.StatusCounts, status event.Status) int {
	return map[event.Status]int{event.Delivered: n.Delivered, event.Failed: n.Failed, event.Retrying: n.Retrying,
		event.Pending: n.Pending, event.Skipped: n.Skipped, event.Rejected: n.Rejected}[status]
}

// ByStatus returns the number of events of each status, without paths.
func (n *EventCounts) ByStatus() (all []StatusCount) {
	for _, status := range countedStatuses {
		c, of := StatusCount{Name: string(status)}, CountOf(&n.Statuses, status)
		if of > 0 {
			if c.Count = ui.Number(int64(of)); n.More { // older events, which were not counted, may have it
				c.Count += "+"
			}
		}
		all = append(all, c)
	}
	return all
}

// Chart draws the events by the time at which they were received; nil if there is nothing to draw. query are their
// filters, for links; statuses are those that are drawn, with commas between them; empty: all.
func (n *EventCounts) Chart(query url.Values, statuses string) *ui.BarChart {
	if len(n.Steps) < 2 || n.StepSeconds < 1 {
		return nil
	}
	step := time.Duration(n.StepSeconds) * time.Second
	from, to := time.Time(n.Steps[0].At), time.Time(n.Steps[len(n.Steps)-1].At)
	line := ui.NewTimeline(to, step, int(to.Sub(from)/step)+1)
	rows, drawn := line.Rows(3), int64(0)
	for _, s := range n.Steps {
		i, ok := line.Index(time.Time(s.At))
		for j, of := range [][]event.Status{{event.Delivered}, {event.Pending, event.Retrying, event.Skipped},
			{event.Failed, event.Rejected}} {
			for _, status := range of {
				if ok && (statuses == "" || slices.Contains(strings.Split(statuses, ","), string(status))) {
					rows[i].Values[j] += int64(CountOf(&s.StatusCounts, status))
					drawn += int64(CountOf(&s.StatusCounts, status))
				}
			}
		}
	}
	if drawn == 0 {
		return nil
	}
	if statuses != "" {
		query = maps.Clone(query)
		query.Set("status", statuses)
	}
	line.LinkEvents(rows, query)
	title := ui.Plural(int(drawn), "event", "events") + " by the time of receipt"
	if n.More {
		title = "Of the newest " + ui.Number(int64(n.Counted)) + ": " + title
	}
	return ui.NewBarChart(title, "Received", []ui.Series{{Name: "delivered", Class: ui.ColourOK},
		{Name: "open or skipped", Class: ui.ColourWait}, {Name: "failed or rejected", Class: ui.ColourBad}}, rows)
}

// Attempt is an attempt at a delivery as the pages show it.
type Attempt struct {
	wire.Attempt
	Name string `json:"-"` // of the destination, where attempts of several are listed
	Open bool   `json:"-"` // it is shown with its request and response
	// SameAs is the number of the attempt before it, whose request headers it has but for those in Changed; 0: there is
	// none, or most headers differ.
	SameAs  int               `json:"-"`
	Changed map[string]string `json:"-"`
	// Curl is a command that makes the request again, for the newest attempt of a delivery; may be empty.
	Curl string `json:"-"`
}

// CompareAttempts finds what the request headers of each attempt have in common with those of the one before, and opens
// the newest if it has failed.
func CompareAttempts(all []*Attempt) {
	for i, a := range all {
		if i == 0 {
			continue
		}
		before := all[i-1]
		changed, alike := map[string]string{}, len(before.Request.Headers) == len(a.Request.Headers)
		for name, value := range a.Request.Headers {
			was, known := before.Request.Headers[name]
			if alike = alike && known; was != value {
				changed[name] = value
			}
		}
		if alike && 2*len(changed) < len(a.Request.Headers) {
			a.SameAs, a.Changed = before.AttemptNumber, changed
		}
	}
	if n := len(all); n > 0 {
		all[n-1].Open = !all[n-1].OK()
	}
}

// Took is the duration of the request.
func (a *Attempt) Took() string {
	if a.DurationMS < 1 {
		return "<\u00a01\u00a0ms"
	}
	return ui.Number(a.DurationMS) + "\u00a0ms"
}

// OK reports whether the destination accepted the event.
func (a *Attempt) OK() bool { return a.Status == "succeeded" }

// Result is the outcome in some words: 503 Service Unavailable, or the code of the error.
func (a *Attempt) Result() string {
	if a.ResponseStatus != nil {
		return strings.TrimSpace(strconv.Itoa(*a.ResponseStatus) + " " + http.StatusText(*a.ResponseStatus))
	}
	if a.ErrorCode != nil {
		return string(*a.ErrorCode)
	}
	return a.Status
}

// Clock is the time of the start within its day.
func (a *Attempt) Clock() string { return time.Time(a.StartedAt).UTC().Format("15:04:05.000") }

// ResponseBody is the beginning of the body of the response.
func (a *Attempt) ResponseBody() string {
	body := a.Response.Body
	if a.Response.BodyEncoding == "base64" {
		body = "(" + strconv.Itoa(base64.StdEncoding.DecodedLen(len(body))) + " bytes that are not text)"
	}
	if a.Response.Truncated && body != "" {
		body += "\n… (cut)"
	}
	return body
}
