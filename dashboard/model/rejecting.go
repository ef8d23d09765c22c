package model

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
)

// Rejecting is an endpoint that has rejected most of the requests of the last hour.
type Rejecting struct {
	EndpointID string
	Text       string // such as "6 of 6 requests of the last hour were rejected"
}

// maxRejecting is how many endpoints RejectingEndpoints finds: each costs a read.
const maxRejecting = 5

// RejectingEndpoints finds endpoints that reject most of their requests, among the newest rejected events of the last
// hour. It finds none while the store does not answer within a second, and asks at most once in ten seconds.
func RejectingEndpoints(v *frame.Visit) ([]Rejecting, error) {
	return frame.Remember(v, "rejecting", 10*time.Second, func() ([]Rejecting, error) { return findRejecting(v) })
}

func findRejecting(v *frame.Visit) (all []Rejecting, err error) {
	var list wire.List[*EventRow]
	err = v.GetSoon("/v1/events", url.Values{"status": {"rejected"}, "since": {"1h"}, "limit": {"100"}}, &list)
	if err != nil {
		if frame.StatusOf(err) != 0 {
			err = nil
		}
		return nil, err
	}
	var seen []string
	for _, e := range list.Data {
		if slices.Contains(seen, e.EndpointID) || len(seen) == maxRejecting {
			continue
		}
		seen = append(seen, e.EndpointID)
		x, err := RejectingAt(v, e.EndpointID)
		if err != nil {
			return nil, err
		}
		if x != nil {
			all = append(all, *x)
		}
	}
	return all, nil
}

// RejectingAt looks at one endpoint; nil if it accepts most of its requests.
func RejectingAt(v *frame.Visit, endpoint string) (*Rejecting, error) {
	n, err := CountEvents(v, url.Values{"endpoint_id": {endpoint}, "source": {"provider"}, "since": {"1h"}})
	if n == nil || n.Statuses.Rejected == 0 || 2*n.Statuses.Rejected < n.Counted {
		return nil, err
	}
	of := "of the last hour"
	if n.More {
		of = "of the newest"
	}
	return &Rejecting{endpoint, fmt.Sprintf("%s of %s %s were rejected", frame.Number(int64(n.Statuses.Rejected)),
		frame.Plural(n.Counted, "request", "requests"), of)}, nil
}

// Need says it as a cause.
func (x *Rejecting) Need(subject string) Need {
	return Need{Class: "failed", Icon: "failed", Subject: subject, Path: frame.PageOf(x.EndpointID),
		Text: x.Text + ": their signatures are not accepted.", Links: []frame.MenuItem{{Name: "Show events",
			Path: frame.WithQuery(frame.EventsPath, nil, "endpoint_id", x.EndpointID, "status", "rejected")}}}
}

// SaysRejecting reports whether an alert that fires says the same of the endpoint.
func SaysRejecting(alerts []*Alert, endpoint string) bool {
	return slices.ContainsFunc(alerts, func(a *Alert) bool {
		return a.Rule == "verification_failed" && frame.TextOf(a.EndpointID) == endpoint
	})
}
