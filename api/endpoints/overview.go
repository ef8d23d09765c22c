package endpoints

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

func newMeasuredView(m event.Measured) wire.MeasuredRequests {
	v := wire.MeasuredRequests{Requests: m.Attempts, Delivered: m.Delivered, Failed: m.Failed,
		FirstAttempts:  m.First.Attempts,
		FirstDelivered: m.First.Delivered}
	if m.Attempts > 0 {
		ms := func(x float64) int64 { return int64(math.Round(x)) }
		v.LatencyMS = &wire.Latency{P50: ms(m.Latency.P50), P95: ms(m.Latency.P95), P99: ms(m.Latency.P99)}
	}
	return v
}

func measuredStepViews(steps []event.MeasuredStep) []wire.MeasuredStep {
	views := make([]wire.MeasuredStep, len(steps))
	for i, s := range steps {
		views[i] = wire.MeasuredStep{At: web.Time(s.At), MeasuredRequests: newMeasuredView(s.Measured)}
	}
	return views
}

// overviews serves the overview of an account and the traffic of its endpoints. Answers are remembered for recentTime.
type overviews struct {
	*area
	recent     frame.Recent[overviewAnswer]
	ofEndpoint frame.Recent[endpointTrafficAnswer]
}

func newOverviews(of *area) *overviews {
	return &overviews{of, frame.Recent[overviewAnswer]{Now: of.Now}, frame.Recent[endpointTrafficAnswer]{Now: of.Now}}
}

// overviewAnswer is an answer that is not written yet. It is shared: nobody changes it.
type overviewAnswer struct {
	view *wire.Overview
	asOf time.Time
}

func (a *overviews) readOverview(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "overview")
	span := trafficRange(q, event.TrafficHour)
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	x, err := a.recent.Get(r.Context(), key.Account+span.Name, func(ctx context.Context) (overviewAnswer, error) {
		return a.overview(ctx, key.Account, span)
	})
	if err != nil {
		return err
	}
	frame.SetAsOf(w, x.asOf)
	return web.Answer(w, http.StatusOK, x.view)
}

// overview reads what needs a person from memory, and the traffic from the store.
func (a *overviews) overview(ctx context.Context, account string, span event.TrafficRange) (overviewAnswer, error) {
	now := a.Now()
	v := &wire.Overview{Object: "overview", At: web.Time(now), Needs: wire.OverviewNeeds{
		Alerts: wire.Counted[*wire.Alert]{Data: []*wire.Alert{}}, Issues: wire.Counted[*wire.Issue]{Data: []*wire.Issue{}},
		Destinations: a.waitingDestinations(ctx, account),
		Recoveries:   wire.Counted[wire.WaitingRecovery]{Data: []wire.WaitingRecovery{}},
		Findings:     wire.Counted[wire.CriticalFinding]{Data: []wire.CriticalFinding{}},
	}}
	for _, add := range a.Needs {
		add(ctx, &v.Needs, account)
	}
	o, err := a.Traffic.Overview(ctx, account, span, now)
	switch {
	case errors.Is(err, event.ErrUnavailable):
		return overviewAnswer{view: v}, nil
	case err != nil:
		return overviewAnswer{}, err
	}
	v.Traffic = &wire.OverviewTraffic{LastHour: newMeasuredView(o.Hour), Minutes: measuredStepViews(o.Minutes),
		Range: span.Name, StepSeconds: int64(span.Step / time.Second), Total: newMeasuredView(o.Range.Total),
		Steps: measuredStepViews(o.Range.Steps), DayBefore: measuredStepViews(o.Range.DayBefore),
		Busiest: a.endpointTraffics(account, o.Busiest), Worst: a.endpointTraffics(account, o.Worst)}
	if span.Span() > event.TrafficDay.Span() {
		v.Traffic.Total.LatencyMS = nil
		for i := range v.Traffic.Steps {
			v.Traffic.Steps[i].LatencyMS = nil
		}
	}
	return overviewAnswer{v, o.AsOf}, nil
}

// waitingDestinations returns the destinations that are held or paused, and those that the service has disabled.
// Those that a person has disabled wait for nothing. Those that a person has paused are last.
func (a *overviews) waitingDestinations(ctx context.Context, account string) wire.Counted[wire.WaitingDestination] {
	endpoints, _ := a.Config.Endpoints(account, 0, math.MaxInt)
	held := breakersOf(ctx, a.LimiterStore, endpoints...)
	out := wire.Counted[wire.WaitingDestination]{Data: []wire.WaitingDestination{}}
	var paused []wire.WaitingDestination
	for _, e := range endpoints {
		for i := range e.Destinations {
			d := &e.Destinations[i]
			state, reason := stateOf(e, d, held)
			if state == stateActive || state == stateDisabled && *reason == string(event.Manual) {
				continue
			}
			x := wire.WaitingDestination{EndpointID: e.ID, EndpointName: e.Name, DestinationID: d.ID, DestinationName: d.Name,
				Host: hostOf(d.URL), State: state, StateReason: reason}
			switch state {
			case statePaused:
				paused = append(paused, x)
				continue
			case stateHeld:
				x.Until = web.Time(held[d.ID])
			}
			out.Add(x)
		}
	}
	for _, x := range paused {
		out.Add(x)
	}
	return out
}

func (a *overviews) endpointTraffics(account string, groups []event.MeasuredGroup) []wire.OverviewEndpoint {
	out := make([]wire.OverviewEndpoint, len(groups))
	for i, g := range groups {
		out[i] = wire.OverviewEndpoint{EndpointID: g.ID, LastHour: newMeasuredView(g.Hour), Hours: make([]wire.Hour,
			len(g.Day)),
			Destinations: make([]wire.DestinationRequests, len(g.Destinations))}
		for j, d := range g.Destinations {
			out[i].Destinations[j] = wire.DestinationRequests{DestinationID: d.ID, Requests: d.Attempts,
				Delivered: d.Delivered, Failed: d.Failed}
		}
		for j, s := range g.Day {
			out[i].Hours[j] = wire.Hour{At: web.Time(s.At), Requests: s.Attempts, Delivered: s.Delivered, Failed: s.Failed}
		}
		if e := a.PresentEndpoint(g.ID, account); e != nil {
			provider := string(e.Provider)
			out[i].Name, out[i].Provider = &e.Name, &provider
		}
	}
	return out
}

// endpointTrafficAnswer is a shared answer about one endpoint.
type endpointTrafficAnswer struct {
	destinations []wire.DestinationTraffic
	waiting      wire.WaitingEvents
	asOf         time.Time
}

// maxWaitingEvents is how many events wire.WaitingEvents has at most.
const maxWaitingEvents = 5

// readTraffic returns the traffic of an endpoint by destination, and its newest events with an open delivery.
func (a *overviews) readTraffic(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "traffic")
	span := trafficRange(q, event.TrafficDay)
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	x, err := a.ofEndpoint.Get(r.Context(), e.ID+span.Name, func(ctx context.Context) (endpointTrafficAnswer, error) {
		return a.trafficOf(ctx, e, span)
	})
	if err != nil {
		return err
	}
	frame.SetAsOf(w, x.asOf)
	return web.Answer(w, http.StatusOK, wire.EndpointTraffic{Object: "endpoint_traffic", EndpointID: e.ID,
		Range: span.Name, StepSeconds: int64(span.Step / time.Second), Destinations: x.destinations, Waiting: x.waiting})
}

// trafficRange reads the range of time.
func trafficRange(q *frame.Query, byDefault event.TrafficRange) event.TrafficRange {
	names := make([]string, len(event.TrafficRanges))
	for i, x := range event.TrafficRanges {
		names[i] = x.Name
	}
	q.Names = append(q.Names, "range")
	name := cmp.Or(q.Single("range"), byDefault.Name)
	frame.CheckEnum(q, "range", []string{name}, names)
	return event.TrafficRanges[max(slices.Index(names, name), 0)]
}

// trafficOf reads the traffic of an endpoint, and what waits, from the store.
func (a *overviews) trafficOf(ctx context.Context, e *config.Endpoint, span event.TrafficRange) (
	x endpointTrafficAnswer, err error) {
	t, err := a.Traffic.DestinationTraffic(ctx, e.Account, e.ID, span, a.Now())
	if err != nil {
		return x, err
	}
	x.asOf, x.destinations = t.AsOf, make([]wire.DestinationTraffic, len(t.Destinations))
	for i, g := range t.Destinations {
		x.destinations[i] = wire.DestinationTraffic{DestinationID: g.ID, LastHour: newMeasuredView(g.Hour),
			Hours: measuredStepViews(g.Day), Total: newMeasuredView(g.Total), Steps: measuredStepViews(g.Steps),
			DayBefore: measuredStepViews(g.DayBefore)}
	}
	page, err := a.Events.Events(ctx, event.Query{Account: e.Account, Endpoints: []string{e.ID},
		Statuses: []event.Status{event.Pending, event.Retrying}, Limit: maxWaitingEvents})
	x.waiting = wire.WaitingEvents{Data: a.Rows(page.Rows), More: page.More}
	return x, err
}
