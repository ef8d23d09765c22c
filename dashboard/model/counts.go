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

// ByStatus returns the number of events of each status, without paths.
func (n *EventCounts) ByStatus() (all []StatusCount) {
	of := &n.Statuses
	for _, x := range []struct {
		status event.Status
		n      int
	}{{event.Delivered, of.Delivered}, {event.Failed, of.Failed}, {event.Retrying, of.Retrying},
		{event.Pending, of.Pending}, {event.Skipped, of.Skipped}, {event.Rejected, of.Rejected}} {
		c := StatusCount{Name: string(x.status)}
		if x.n > 0 || n.More { // older events, which were not counted, may have it
			if c.Count = frame.Number(int64(x.n)); n.More {
				c.Count += "+"
			}
		}
		all = append(all, c)
	}
	return all
}
