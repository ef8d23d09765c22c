package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// endpointRow is an endpoint in the list of endpoints, with what the overview knows of it.
type endpointRow struct {
	endpointData

	Known    bool // LastHour and Strip are known
	LastHour measuredData
	Strip    strip
	unknown  bool // whether its requests fail
	// sent are the requests of the last hour by destination.
	sent    map[string]measuredData
	failing map[string]bool // destinations for whose failures an alert fires
}

// How many endpoints the overview has as the busiest and the worst. If it has fewer, no other endpoint has had a
// request in the last day, and none a failed one in the last hour.
const (
	busiestEndpoints = 20
	worstEndpoints   = 10
)

// addTraffic adds to the endpoints of a page what the overview knows: it reads the store at most once in ten seconds,
// however many pages ask. Without an answer within a second nothing is added: missing is true.
func addTraffic(v *visit, rows []*endpointRow) (missing bool, err error) {
	var o overviewData
	err = v.getSoon("/v1/overview", &o)
	if x, ok := errors.AsType[*apiError](err); ok && (x.isUnavailable() || x.Status == http.StatusTooManyRequests) {
		o = overviewData{}
	} else if err != nil {
		return false, err
	}
	failing := map[string]bool{}
	for _, a := range o.Needs.Alerts.Data {
		if a.DestinationID != nil && (a.Rule == "consecutive_failures" || a.Rule == "failure_rate") {
			failing[*a.DestinationID] = true
		}
	}
	traffic, all, allBad := map[string]endpointTrafficData{}, false, false
	if o.Traffic != nil {
		for _, x := range slices.Concat(o.Traffic.Busiest, o.Traffic.Worst) {
			traffic[x.EndpointID] = x
		}
		all, allBad = len(o.Traffic.Busiest) < busiestEndpoints, len(o.Traffic.Worst) < worstEndpoints
	}
	at, err := time.Parse(time.RFC3339, o.At)
	if err != nil {
		at = v.deps.Now()
	}
	for _, e := range rows {
		x, found := traffic[e.ID]
		e.failing, e.LastHour, e.Known, e.unknown = failing, x.LastHour, found || all, !found && !all && !allBad
		e.sent = make(map[string]measuredData, len(x.Destinations))
		for _, d := range x.Destinations {
			e.sent[d.ID] = d.measuredData
		}
		e.Strip = hourStrip(e.Name, x.Hours, at)
	}
	return o.Traffic == nil, nil
}

// Status is the state of the endpoint. One that is active looks well only if nothing is held and its requests succeed.
func (e *endpointRow) Status() status {
	s := e.endpointData.Status()
	if s.Word != "active" {
		return s
	}
	for i := range e.Destinations {
		if d := &e.Destinations[i]; d.Status().On {
			return status{Word: "destination " + d.State, Mark: d.Status().Mark, On: true}
		}
	}
	switch n := &e.LastHour; {
	case e.unknown:
		s.Mark = "note"
	case n.Failed > 0 && n.Delivered == 0:
		return status{Word: "failing", Mark: "failed", On: true}
	case requestsClass(n.Requests, n.Failed) == colourBad || slices.ContainsFunc(e.Destinations, e.fails):
		return status{Word: "failing", Mark: "retrying", On: true}
	}
	return s
}

func (e *endpointRow) fails(d destinationData) bool { return e.failing[d.ID] }

// Marks are the states of the destinations, with their names, as the endpoint's page shows them. One that is active
// looks well only if it is certain that its requests succeed.
func (e *endpointRow) Marks() marks {
	all := make([]status, len(e.Destinations))
	for i := range e.Destinations {
		d := &e.Destinations[i]
		n := e.sent[d.ID]
		switch all[i] = d.Status(); {
		case d.State != "active":
		case e.fails(*d), n.Failed > 0 && n.Delivered == 0:
			all[i] = status{Word: "failing", Mark: "failed"}
		case n.Failed > 0:
			all[i] = status{Word: "active, " + strings.TrimSuffix(n.Problem(), "."), Mark: "retrying"}
		case e.unknown:
			all[i] = status{Word: "active, requests are not known", Mark: "note"}
		}
		all[i].Word = d.Title() + ": " + all[i].Word
	}
	return newMarks(all)
}
