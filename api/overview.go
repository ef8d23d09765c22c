package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// TrafficReader reads counts of requests to destinations from the store.
type TrafficReader interface {
	// Overview returns the traffic of the hour and the day that end with the minute of now.
	Overview(ctx context.Context, account string, now time.Time) (event.Overview, error)
	// DestinationTraffic returns the traffic of one endpoint in the same hour and day, by destination.
	DestinationTraffic(ctx context.Context, account, endpoint string, now time.Time) (event.DestinationTraffic, error)
}

// maxNeeds is how many of each thing that needs a person an overview names; it counts all of them.
const maxNeeds = 20

// overviewView is the response to GET /v1/overview.
type overviewView struct {
	Object  string       `json:"object"`
	At      web.Time     `json:"at"` // when it was made
	Needs   needsView    `json:"needs"`
	Traffic *trafficView `json:"traffic"` // null while the event store does not answer
}

// needsView is what needs a person now.
type needsView struct {
	Alerts       counted[*alertView]          `json:"alerts"`
	Destinations counted[waitingDestination]  `json:"destinations"`
	Recoveries   counted[waitingRecoveryView] `json:"recoveries"`
	Findings     counted[openFindingView]     `json:"findings"`
}

// counted is the first maxNeeds of Total things.
type counted[T any] struct {
	Total int `json:"total"`
	Data  []T `json:"data"`
}

func (c *counted[T]) add(x T) {
	if c.Total++; len(c.Data) < maxNeeds {
		c.Data = append(c.Data, x)
	}
}

// waitingDestination is a destination whose deliveries wait, or that the service has disabled.
type waitingDestination struct {
	EndpointID      string   `json:"endpoint_id"`
	EndpointName    string   `json:"endpoint_name"`
	DestinationID   string   `json:"destination_id"`
	DestinationName *string  `json:"destination_name"`
	Host            string   `json:"host"`
	State           string   `json:"state"`
	StateReason     *string  `json:"state_reason"`
	Until           web.Time `json:"until"` // of the next probe; null: until somebody changes it
}

// waitingRecoveryView is a recovery job that waits for approval.
type waitingRecoveryView struct {
	ID            string     `json:"id"`
	EndpointID    string     `json:"endpoint_id"`
	EndpointName  *string    `json:"endpoint_name"`
	DestinationID *string    `json:"destination_id"`
	Total         int        `json:"total"`
	Canary        canaryView `json:"canary"`
	DeadlineAt    web.Time   `json:"deadline_at"`
	CreatedBy     string     `json:"created_by"`
}

// openFindingView is an open finding of high or critical severity.
type openFindingView struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Name     string   `json:"name"`
	Masked   *string  `json:"masked"`
	Severity string   `json:"severity"`
	OpenedAt web.Time `json:"opened_at"`
}

// trafficView is the traffic of an account.
type trafficView struct {
	LastHour measuredView       `json:"last_hour"`
	Minutes  []measuredStepView `json:"minutes"`
	Busiest  []endpointTraffic  `json:"busiest"`
	Worst    []endpointTraffic  `json:"worst"`
}

// measuredView counts requests to destinations. Latency is that of requests.
type measuredView struct {
	Requests       int64        `json:"requests"`
	Delivered      int64        `json:"delivered"`
	Failed         int64        `json:"failed"`
	FirstAttempts  int64        `json:"first_attempts"`
	FirstDelivered int64        `json:"first_attempts_delivered"`
	LatencyMS      *latencyView `json:"latency_ms"` // null without requests
}

type latencyView struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	P99 int64 `json:"p99"`
}

// measuredStepView is one step of time: a minute, or an hour of a destination.
type measuredStepView struct {
	At web.Time `json:"at"`
	measuredView
}

// hourView is one hour of an endpoint.
type hourView struct {
	At        web.Time `json:"at"`
	Requests  int64    `json:"requests"`
	Delivered int64    `json:"delivered"`
	Failed    int64    `json:"failed"`
}

// endpointTraffic is an endpoint in an overview.
type endpointTraffic struct {
	EndpointID string       `json:"endpoint_id"`
	Name       *string      `json:"name"` // null: it was deleted
	Provider   *string      `json:"provider"`
	LastHour   measuredView `json:"last_hour"`
	Hours      []hourView   `json:"hours"`
	// Destinations have had a request in the last hour. Those that were removed are included.
	Destinations []destinationRequests `json:"destinations"`
}

// destinationRequests are the requests of the last hour to one destination.
type destinationRequests struct {
	DestinationID string `json:"destination_id"`
	Requests      int64  `json:"requests"`
	Delivered     int64  `json:"delivered"`
	Failed        int64  `json:"failed"`
}

func newMeasuredView(m event.Measured) measuredView {
	v := measuredView{Requests: m.Attempts, Delivered: m.Delivered, Failed: m.Failed, FirstAttempts: m.First.Attempts,
		FirstDelivered: m.First.Delivered}
	if m.Attempts > 0 {
		ms := func(x float64) int64 { return int64(math.Round(x)) }
		v.LatencyMS = &latencyView{ms(m.Latency.P50), ms(m.Latency.P95), ms(m.Latency.P99)}
	}
	return v
}

func measuredStepViews(steps []event.MeasuredStep) []measuredStepView {
	views := make([]measuredStepView, len(steps))
	for i, s := range steps {
		views[i] = measuredStepView{web.Time(s.At), newMeasuredView(s.Measured)}
	}
	return views
}

// overviews serves the overview of an account and the traffic of its endpoints. Answers are remembered for recentTime.
type overviews struct {
	*core
	alerts     AlertSettings
	recoveries Recoveries
	findings   *findings
	limits     LimiterStore
	events     *events
	traffic    TrafficReader
	recent     recent[overviewAnswer]
	ofEndpoint recent[endpointTrafficAnswer]
}

func newOverviews(c *core, deps *Deps, f *findings, e *events) *overviews {
	return &overviews{
		core: c, alerts: deps.Config, recoveries: deps.Config, findings: f, limits: deps.LimiterStore, events: e,
		traffic: deps.Traffic,
		recent:  recent[overviewAnswer]{now: c.now}, ofEndpoint: recent[endpointTrafficAnswer]{now: c.now},
	}
}

// overviewAnswer is an answer that is not written yet. It is shared: nobody changes it.
type overviewAnswer struct {
	view *overviewView
	asOf time.Time
}

func (a *overviews) readOverview(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, "overview")
	if q.refuseUnknownParameters(); q.err != nil {
		return q.err
	}
	x, err := a.recent.get(r.Context(), key.Account, func(ctx context.Context) (overviewAnswer, error) {
		return a.overview(ctx, key.Account)
	})
	if err != nil {
		return err
	}
	setAsOf(w, x.asOf)
	web.WriteJSON(w, http.StatusOK, x.view)
	return nil
}

// overview reads what needs a person from memory, and the traffic from the store.
func (a *overviews) overview(ctx context.Context, account string) (overviewAnswer, error) {
	now := a.now()
	v := &overviewView{Object: "overview", At: web.Time(now), Needs: needsView{
		Alerts: counted[*alertView]{Data: []*alertView{}}, Destinations: a.waitingDestinations(ctx, account),
		Recoveries: counted[waitingRecoveryView]{Data: []waitingRecoveryView{}},
		Findings:   counted[openFindingView]{Data: []openFindingView{}},
	}}
	const all = math.MaxInt
	firing, _ := a.alerts.AlertPage(account, 0, all, func(x *config.Alert) bool { return x.Firing })
	for _, x := range firing {
		v.Needs.Alerts.add(newAlertView(x))
	}
	waiting, _ := a.recoveries.Recoveries(account, 0, all, func(j *config.Recovery) bool {
		return j.State == config.RecoveryAwaitingApproval
	})
	for _, j := range waiting {
		x := waitingRecoveryView{ID: j.ID, EndpointID: j.Endpoint, DestinationID: orNull(j.Destination), Total: j.Total,
			Canary: viewOfCanary(j.Canary), DeadlineAt: web.Time(j.Deadline), CreatedBy: j.CreatedBy}
		if e := a.presentEndpoint(j.Endpoint, account); e != nil {
			x.EndpointName = &e.Name
		}
		v.Needs.Recoveries.add(x)
	}
	a.addFindings(&v.Needs.Findings, account)
	o, err := a.traffic.Overview(ctx, account, now)
	switch {
	case errors.Is(err, event.ErrUnavailable):
		return overviewAnswer{view: v}, nil
	case err != nil:
		return overviewAnswer{}, err
	}
	v.Traffic = &trafficView{LastHour: newMeasuredView(o.Hour), Minutes: measuredStepViews(o.Minutes),
		Busiest: a.endpointTraffics(account, o.Busiest), Worst: a.endpointTraffics(account, o.Worst)}
	return overviewAnswer{v, o.AsOf}, nil
}

// addFindings adds the open findings of critical severity, then those of high severity, each newest first. They are
// those that alerts report by default.
func (a *overviews) addFindings(to *counted[openFindingView], account string) {
	for _, severity := range []finding.Severity{finding.Critical, finding.High} {
		for _, name := range a.findings.states.FindingIDs(config.FindingFilter{
			Statuses: []finding.Status{finding.Open}, Severities: []finding.Severity{severity}}) {
			f, presence := a.findings.states.Finding(name)
			if presence != config.Present || f.Account != account {
				continue
			}
			x := openFindingView{ID: f.ID, Rule: f.Rule, Masked: orNull(f.Masked), Severity: f.Severity.String(),
				OpenedAt: web.Time(f.OpenedAt)}
			x.Name, _, _ = a.findings.describeRule(f)
			to.add(x)
		}
	}
}

// waitingDestinations returns the destinations that are held or paused, and those that the service has disabled.
// Those that a person has disabled wait for nothing. Those that a person has paused are last.
func (a *overviews) waitingDestinations(ctx context.Context, account string) counted[waitingDestination] {
	endpoints, _ := a.configReader.Endpoints(account, 0, math.MaxInt)
	held := breakersOf(ctx, a.limits, endpoints...)
	out := counted[waitingDestination]{Data: []waitingDestination{}}
	var paused []waitingDestination
	for _, e := range endpoints {
		for i := range e.Destinations {
			d := &e.Destinations[i]
			state, reason := stateOf(e, d, held)
			if state == stateActive || state == stateDisabled && *reason == string(event.Manual) {
				continue
			}
			x := waitingDestination{EndpointID: e.ID, EndpointName: e.Name, DestinationID: d.ID, DestinationName: d.Name,
				Host: hostOf(d.URL), State: state, StateReason: reason}
			switch state {
			case statePaused:
				paused = append(paused, x)
				continue
			case stateHeld:
				x.Until = web.Time(held[d.ID])
			}
			out.add(x)
		}
	}
	for _, x := range paused {
		out.add(x)
	}
	return out
}

func (a *overviews) endpointTraffics(account string, groups []event.MeasuredGroup) []endpointTraffic {
	out := make([]endpointTraffic, len(groups))
	for i, g := range groups {
		out[i] = endpointTraffic{EndpointID: g.ID, LastHour: newMeasuredView(g.Hour), Hours: make([]hourView, len(g.Day)),
			Destinations: make([]destinationRequests, len(g.Destinations))}
		for j, d := range g.Destinations {
			out[i].Destinations[j] = destinationRequests{d.ID, d.Attempts, d.Delivered, d.Failed}
		}
		for j, s := range g.Day {
			out[i].Hours[j] = hourView{web.Time(s.At), s.Attempts, s.Delivered, s.Failed}
		}
		if e := a.presentEndpoint(g.ID, account); e != nil {
			provider := string(e.Provider)
			out[i].Name, out[i].Provider = &e.Name, &provider
		}
	}
	return out
}

// endpointTrafficAnswer is a shared answer about one endpoint.
type endpointTrafficAnswer struct {
	destinations []destinationTraffic
	waiting      waitingEvents
	asOf         time.Time
}

// waitingEvents are the newest events with an open delivery.
type waitingEvents struct {
	Data []eventRow `json:"data"`
	More bool       `json:"more"`
}

// maxWaitingEvents is how many events waitingEvents has at most.
const maxWaitingEvents = 5

// destinationTraffic is the traffic of one destination. Destinations that were removed are included.
type destinationTraffic struct {
	DestinationID string             `json:"destination_id"`
	LastHour      measuredView       `json:"last_hour"`
	Hours         []measuredStepView `json:"hours"`
}

// readTraffic returns the traffic of an endpoint by destination, and its newest events with an open delivery.
func (a *overviews) readTraffic(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.endpointInPath(r, key)
	if err != nil {
		return err
	}
	q := newQuery(r, "traffic")
	if q.refuseUnknownParameters(); q.err != nil {
		return q.err
	}
	x, err := a.ofEndpoint.get(r.Context(), e.ID, func(ctx context.Context) (endpointTrafficAnswer, error) {
		return a.trafficOf(ctx, e)
	})
	if err != nil {
		return err
	}
	setAsOf(w, x.asOf)
	web.WriteJSON(w, http.StatusOK, struct {
		Object       string               `json:"object"`
		EndpointID   string               `json:"endpoint_id"`
		Destinations []destinationTraffic `json:"destinations"`
		Waiting      waitingEvents        `json:"waiting"`
	}{"endpoint_traffic", e.ID, x.destinations, x.waiting})
	return nil
}

// trafficOf reads the traffic of an endpoint, and what waits, from the store.
func (a *overviews) trafficOf(ctx context.Context, e *config.Endpoint) (x endpointTrafficAnswer, err error) {
	t, err := a.traffic.DestinationTraffic(ctx, e.Account, e.ID, a.now())
	if err != nil {
		return x, err
	}
	x.asOf, x.destinations = t.AsOf, make([]destinationTraffic, len(t.Destinations))
	for i, g := range t.Destinations {
		x.destinations[i] = destinationTraffic{g.ID, newMeasuredView(g.Hour), measuredStepViews(g.Day)}
	}
	page, err := a.events.events.Events(ctx, event.Query{Account: e.Account, Endpoints: []string{e.ID},
		Statuses: []event.Status{event.Pending, event.Retrying}, Limit: maxWaitingEvents})
	x.waiting = waitingEvents{a.events.rowsOf(page.Rows), page.More}
	return x, err
}
