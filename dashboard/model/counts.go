package model

import (
	"net/url"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/event"
)

// EventCounts counts the newest events that match some filters.
type EventCounts struct{ wire.CountedEvents }

// StatusCount is the number of events of one status.
type StatusCount struct {
	Name, Path string
	Count      string // empty: none; with a plus if older events were not counted
	Current    bool
}

// CountEvents counts events; nil if the service does not answer within a second: a page is shown without counts then.
func CountEvents(v *frame.Visit, query url.Values) (*EventCounts, error) {
	n := &EventCounts{}
	if err := v.GetSoon("/v1/events/counts", query, n); err != nil {
		if frame.StatusOf(err) != 0 {
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
			if c.Count = frame.Number(int64(of)); n.More { // older events, which were not counted, may have it
				c.Count += "+"
			}
		}
		all = append(all, c)
	}
	return all
}
