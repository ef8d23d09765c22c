package endpoints

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of an endpoint and of one of its destinations in the API.
const (
	endpointAPI    = "/v1/endpoints/{endpoint}"
	destinationAPI = endpointAPI + "/destinations/{destination}"
)

var readEndpoint = ui.ReadAt[model.Endpoint](endpointAPI)

// endpointsPage is the data of the list of endpoints.
type endpointsPage struct {
	*ui.FilteredList[*endpointRow]
	NoTraffic bool // the requests could not be read
	BaseURL   string
}

// endpointColumns are those of the list. It is not sorted by requests: those of most endpoints are read page by page.
var endpointColumns = []ui.Column[*endpointRow]{
	{Name: "Endpoint", Compare: ui.By(func(e *endpointRow) string { return strings.ToLower(e.Name) })},
	{Name: "State", Compare: ui.By(func(e *endpointRow) string { return e.Endpoint.Status().Word })},
	{Name: "Destinations", Compare: ui.By(func(e *endpointRow) int { return len(e.Destinations) })},
	{Name: "Sent, last hour", Class: "r"}, {Name: "Last 24 h"}, {Name: "Ingest URL"},
	{Name: "Created", Compare: ui.By(func(e *endpointRow) int64 { return time.Time(e.CreatedAt).UnixNano() })},
}

// listEndpoints shows the endpoints that contain a text, newest first.
func listEndpoints(v *ui.Visit) (err error) {
	p := endpointsPage{BaseURL: v.Config.BaseURL}
	if p.FilteredList, err = ui.ListRows(v, "/v1/endpoints", ui.EndpointsPath,
		[]string{"q", "tenant"}, endpointColumns...); err != nil {
		return err
	}
	if len(p.Rows) > 0 {
		if p.NoTraffic, err = addTraffic(v, p.Rows); err != nil {
			return err
		}
		for _, e := range p.Rows {
			e.unknown = e.unknown || p.NoTraffic
		}
		rejecting, err := model.RejectingEndpoints(v)
		if err != nil {
			return err
		}
		for _, x := range rejecting {
			for _, e := range p.Rows {
				if e.ID == x.EndpointID {
					e.rejecting = x.Text + "."
				}
			}
		}
	}
	return v.Page("endpoints", p)
}

// endpointPage is what every page of one endpoint shows.
type endpointPage struct {
	*model.Endpoint
	Tab   string // path of the current tab
	Retry retryView
	Form  *ui.Form
	// Warnings are the warnings of the API about the settings just saved.
	Warnings []wire.Warning
	Choices  map[string][]ui.Option
	Open     bool // show the part of the form that is closed otherwise
}

func newEndpointPage(e *model.Endpoint) *endpointPage {
	return &endpointPage{Endpoint: e, Tab: e.Path(), Retry: newRetryView(&e.RetryPolicy)}
}

// Tabs are the pages of an endpoint.
func (p *endpointPage) Tabs() []ui.MenuItem {
	return []ui.MenuItem{
		{Path: p.Path(), Name: "Overview"},
		{Path: ui.WithQuery(ui.EventsPath, nil, "endpoint_id", p.ID), Name: "Events"},
		{Path: p.Path() + "/settings", Name: "Settings"}, {Path: p.Path() + "/retries", Name: "Retries"},
		{Path: p.Path() + "/workbench", Name: "Workbench"}, {Path: p.Path() + "/wait", Name: "Set-up"},
	}
}

// testEndpoint sends a test event and shows it, on the page of the set-up if the form asks for that.
func testEndpoint(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	var sent struct {
		ID string `json:"id"`
	}
	if err := v.Do("POST "+endpointAPI+"/test", f, f.Entered("destination_id"), &sent); err != nil {
		return err
	}
	to := e.Path() + "/wait"
	if f.Value("then") != "wait" {
		to = ui.PageOf(sent.ID)
	}
	return v.Redirect(to, "Test event sent")
}

// endpointRow is an endpoint in the list of endpoints, with what the overview knows of it.
type endpointRow struct {
	model.Endpoint

	Known    bool // LastHour and Strip are known
	LastHour wire.MeasuredRequests
	Strip    ui.Strip
	unknown  bool // whether its requests fail
	// sent are the requests of the last hour by destination.
	sent    map[string]wire.DestinationRequests
	failing map[string]bool // destinations for whose failures an alert fires
	// rejecting says that most of its requests were rejected; empty: they were not.
	rejecting string
}

// How many endpoints the overview has as the busiest and the worst. If it has fewer, no other endpoint has had a
// request in the last day, and none a failed one in the last hour.
const (
	busiestEndpoints = 20
	worstEndpoints   = 10
)

// addTraffic adds to the endpoints of a page what the overview knows: it reads the store at most once in ten seconds,
// however many pages ask. Without an answer within a second nothing is added: missing is true.
func addTraffic(v *ui.Visit, rows []*endpointRow) (missing bool, err error) {
	var o wire.Overview
	err = v.GetSoon("/v1/overview", nil, &o)
	if err != nil && !ui.IsUnavailable(err) && ui.StatusOf(err) != http.StatusTooManyRequests {
		return false, err
	}
	failing := map[string]bool{}
	for _, a := range o.Needs.Alerts.Data {
		if a.DestinationID != nil && (a.Rule == "consecutive_failures" || a.Rule == "failure_rate") {
			failing[*a.DestinationID] = true
		}
	}
	traffic, all, allBad := map[string]wire.OverviewEndpoint{}, false, false
	if o.Traffic != nil {
		for _, x := range slices.Concat(o.Traffic.Busiest, o.Traffic.Worst) {
			traffic[x.EndpointID] = x
		}
		all, allBad = len(o.Traffic.Busiest) < busiestEndpoints, len(o.Traffic.Worst) < worstEndpoints
	}
	at := time.Time(o.At)
	if o.At.IsZero() {
		at = v.Now()
	}
	for _, e := range rows {
		x, found := traffic[e.ID]
		e.failing, e.LastHour, e.Known, e.unknown = failing, x.LastHour, found || all, !found && !all && !allBad
		e.sent = make(map[string]wire.DestinationRequests, len(x.Destinations))
		for _, d := range x.Destinations {
			e.sent[d.DestinationID] = d
		}
		e.Strip = model.HourStrip(e.Name, x.Hours, at)
	}
	return o.Traffic == nil, nil
}

// Status is the state of the endpoint. One that is active looks well only if nothing is held and its requests succeed.
func (e *endpointRow) Status() ui.Status {
	s := e.Endpoint.Status()
	if s.Word != "active" {
		return s
	}
	if e.rejecting != "" {
		return ui.Status{Word: "rejecting", Mark: "rejected", On: true}
	}
	for i := range e.Destinations {
		if d := &e.Destinations[i]; d.Status().On {
			return ui.Status{Word: "destination " + d.State, Mark: d.Status().Mark, On: true}
		}
	}
	switch n := &e.LastHour; {
	case e.unknown: // what the configuration and the circuit breaker say
		s.Mark = "note"
	case n.Failed > 0 && n.Delivered == 0:
		return ui.Status{Word: "failing", Mark: "failed", On: true}
	case ui.RequestsClass(n.Requests, n.Failed) == ui.ColourBad || slices.ContainsFunc(e.Destinations, e.fails):
		return ui.Status{Word: "failing", Mark: "retrying", On: true}
	}
	return s
}

// Problem says how many requests of the last hour were rejected or have failed; empty if none has.
func (e *endpointRow) Problem() string {
	return strings.TrimSpace(e.rejecting + " " + model.Problem(e.LastHour.Requests, e.LastHour.Failed))
}

func (e *endpointRow) fails(d model.Destination) bool { return e.failing[d.ID] }

// Marks are the states of the destinations, with their names, as the endpoint's page shows them. One that is active
// looks well only if it is certain that its requests succeed.
func (e *endpointRow) Marks() ui.Marks {
	all := make([]ui.Status, len(e.Destinations))
	for i := range e.Destinations {
		d := &e.Destinations[i]
		n := e.sent[d.ID]
		switch all[i] = d.Status(); {
		case d.State != "active":
		case e.fails(*d), n.Failed > 0 && n.Delivered == 0:
			all[i] = ui.Status{Word: "failing", Mark: "failed"}
		case n.Failed > 0:
			all[i] = ui.Status{Word: "active, " + strings.TrimSuffix(model.Problem(n.Requests, n.Failed), "."),
				Mark: "retrying"}
		case e.unknown:
			all[i] = ui.Status{Word: "active, requests are not known", Mark: "note"}
		}
		all[i].Word = d.Title() + ": " + all[i].Word
	}
	return ui.NewMarks(all)
}

// endpointOverview is what the page of an endpoint shows besides its settings: traffic, what waits, and what fires.
type endpointOverview struct {
	*endpointPage
	All         *trafficView
	Traffic     []*destinationTraffic // one for each destination, in their order
	Waiting     []*model.EventRow     // the newest events with an open delivery
	WaitingMore bool
	WaitingPath string              // of the list of all of them
	Needs       []model.Need        // what fires, by destination
	Counts      []model.StatusCount // events of the last day by status, those that there are
}

// destinationTraffic is a destination with its requests of the last hour and the last day.
type destinationTraffic struct {
	*model.Destination
	wire.DestinationTraffic
	Known bool // its requests could be read
	Strip ui.Strip
}

// waitingStatuses are the states of events with an open delivery: one that is held makes its event pending.
const waitingStatuses = "pending,retrying"

// showEndpoint shows the destinations of an endpoint with their traffic, what waits, what fires, and the retry policy.
func showEndpoint(v *ui.Visit, e *model.Endpoint) error {
	p := &endpointOverview{endpointPage: newEndpointPage(e),
		WaitingPath: ui.WithQuery(ui.EventsPath, nil, "endpoint_id", e.ID, "status", waitingStatuses)}
	traffic, err := readTraffic(v, e, e.Path())
	if err != nil {
		return err
	}
	alerts, err := ui.ReadRows[*model.Alert](v, "/v1/alerts/history",
		url.Values{"endpoint_id": {e.ID}, "state": {"firing"}})
	if err != nil {
		return err
	}
	p.Waiting, p.WaitingMore = model.EventRows(traffic.Waiting.Data), traffic.Waiting.More
	for _, x := range p.Waiting {
		x.SetNames(v)
	}
	now := v.Now().UTC()
	for i := range e.Destinations {
		p.Traffic = append(p.Traffic, traffic.of(&e.Destinations[i], now))
	}
	if p.Needs, err = needsOf(v, e, alerts.Data); err != nil {
		return err
	}
	about := url.Values{"endpoint_id": {e.ID}, "since": {event.TrafficDay.Name}}
	counted, err := model.CountEvents(v, about)
	if err != nil {
		return err
	}
	if counted != nil {
		for _, c := range counted.ByStatus() {
			if c.Path = ui.WithQuery(ui.EventsPath, about, "status", c.Name); c.Count != "" {
				p.Counts = append(p.Counts, c)
			}
		}
	}
	p.All = traffic.view(url.Values{"endpoint_id": {e.ID}}, now, p.Traffic...)
	return v.Page("endpoint", p)
}

// needsOf are the alerts that fire for an endpoint, and its destinations that the service has held or disabled.
func needsOf(v *ui.Visit, e *model.Endpoint, alerts []*model.Alert) ([]model.Need, error) {
	x := model.NewCauses(v)
	for i := range e.Destinations {
		d := &e.Destinations[i]
		if d.State == "held" || d.State == "disabled" && ui.TextOf(d.StateReason) != string(event.Manual) {
			w := wire.WaitingDestination{EndpointID: e.ID, DestinationID: d.ID, State: d.State, StateReason: d.StateReason}
			x.AddWaiting(d.Title(), &w)
		}
	}
	for _, a := range alerts {
		subject := e.Name
		if d := e.Destination(ui.TextOf(a.DestinationID)); d != nil {
			subject = d.Title()
		}
		need := x.AddAlert(a, subject)
		if a.Rule == "verification_failed" {
			if err := need.Diagnose(v, e.ID); err != nil {
				return nil, err
			}
		}
	}
	needs := x.Needs()
	if rejecting, err := model.RejectingAt(v, e.ID); err != nil {
		return nil, err
	} else if rejecting != nil && !model.SaysRejecting(alerts, e.ID) {
		need := rejecting.Need(e.Name)
		if err := need.Diagnose(v, e.ID); err != nil {
			return nil, err
		}
		needs = append(needs, need)
	}
	return needs, nil
}

// Status is the state of the destination. One that is active looks well only if its requests succeed, or if there were
// none; a warning means that they cannot be read.
func (d *destinationTraffic) Status() ui.Status {
	s := d.Destination.Status()
	if d.State != "active" {
		return s
	}
	switch n := &d.LastHour; {
	case !d.Known:
		s.Mark = "note"
	case n.Failed > 0 && n.Delivered == 0:
		return ui.Status{Word: "failing", Mark: "failed", On: true}
	case n.Failed > 0:
		s.Mark, s.On = "retrying", true
	}
	return s
}

// Why explains the state, and says how many requests have failed.
func (d *destinationTraffic) Why() string {
	return strings.TrimSpace(d.Destination.Why() + " " + model.Problem(d.LastHour.Requests, d.LastHour.Failed))
}

// retryStep is one attempt in a retry policy.
type retryStep struct {
	Attempt int
	Wait    string // after the attempt before it; "at once" for the first
	Since   string // after the first attempt
	Gap     bool   // it stands for the attempts that are left out before the last
}

// retryView shows a retry policy as time.
type retryView struct {
	Steps   []retryStep
	Summary string
	Hint    string
}

// maxSteps is how many attempts a retry policy shows.
const maxSteps = 11

func newRetryView(p *retry.Policy) retryView {
	n, since := p.Attempts(), 0.0
	all := []retryStep{{Attempt: 1, Wait: "at once"}}
	for failed := 1; failed < n; failed++ {
		delay := p.DelaySeconds(failed)
		since += delay
		all = append(all, retryStep{Attempt: failed + 1, Wait: "+" + ui.DurationText(delay),
			Since: ui.DurationText(since)})
	}
	r := retryView{Steps: all}
	if len(all) > maxSteps {
		r.Steps = append(all[:maxSteps-2:maxSteps-2], retryStep{Gap: true, Attempt: n - maxSteps + 1}, all[n-1])
	}
	if n == 1 {
		r.Summary = "one attempt at once, no retry"
		r.Hint = "A delivery that fails is not repeated. You can replay its event."
		return r
	}
	r.Summary = "at once"
	for _, s := range all[1:min(3, n)] {
		r.Summary += ", " + s.Wait[1:]
	}
	if n > 3 {
		r.Summary += ", …"
	}
	r.Summary += "; gives up " + ui.DurationText(since) + " after the first attempt"
	r.Hint = retryHint(p)
	return r
}

func retryHint(p *retry.Policy) string {
	hint := "Retried: network errors, timeouts, 408, 409, 425, 429 and every 5xx"
	if len(p.RetryOn) > 0 {
		hint += "; further " + strings.Join(p.RetryOn, ", ")
	}
	hint += ". 410 ends the delivery."
	if p.Jitter > 0 {
		percent := strconv.FormatFloat(p.Jitter*100, 'f', -1, 64)
		hint += " Each wait varies by up to " + percent + "\u00a0% (jitter)."
	}
	if p.RespectRetryAfter {
		hint += " A longer Retry-After is respected up to " + ui.DurationText(float64(p.MaxRetryAfterSeconds)) + "."
	} else {
		hint += " Retry-After is ignored."
	}
	return hint
}

// traffic is the traffic of an endpoint in a range of time.
type traffic struct {
	wire.EndpointTraffic
	Unavailable string `json:"-"` // why it could not be read
	menu        model.RangeMenu
}

// readTraffic reads the traffic of the endpoint, in the range that the visitor has chosen on the page at path.
func readTraffic(v *ui.Visit, e *model.Endpoint, path string) (t *traffic, err error) {
	t = &traffic{menu: model.NewRangeMenu(v, path, time.Time(e.CreatedAt), event.TrafficDay)}
	t.Unavailable, err = v.TryGet(endpointAPI+"/traffic", url.Values{"range": {t.menu.Span.Name}}, t)
	return t, err
}

// of returns a destination of the endpoint with its requests.
func (t *traffic) of(d *model.Destination, now time.Time) *destinationTraffic {
	out := &destinationTraffic{Destination: d, Known: t.Unavailable == ""}
	for i := range t.Destinations {
		if x := &t.Destinations[i]; x.DestinationID == d.ID {
			out.DestinationTraffic = *x
		}
	}
	out.Strip = model.HourStrip(d.Title(), model.HoursOf(out.Hours), now)
	return out
}

// trafficView shows the requests of a range: of an endpoint, or to one of its destinations.
type trafficView struct {
	model.RangeMenu
	Unavailable string // why they are not known
	Chart       *ui.BarChart
	Total       wire.MeasuredRequests // without latency for several destinations
	Backlog     *backlog              // of one destination; nil: they are those to several
	Failing     ui.Sparkline          // share of the requests that failed
}

// view draws the requests to some destinations of the endpoint. A bar leads to the events of its step.
func (t *traffic) view(events url.Values, now time.Time, of ...*destinationTraffic) *trafficView {
	x := &trafficView{Unavailable: t.Unavailable, RangeMenu: t.menu}
	if t.Unavailable != "" {
		return x
	}
	steps, before := make([][]wire.MeasuredStep, len(of)), make([][]wire.MeasuredStep, len(of))
	for i, d := range of {
		x.Total.Requests += d.Total.Requests
		x.Total.Delivered += d.Total.Delivered
		x.Total.Failed += d.Total.Failed
		x.Total.LatencyMS = d.Total.LatencyMS
		steps[i], before[i] = d.Steps, d.DayBefore
	}
	rows := model.RequestRows(now, t.menu.Span, events, steps, before)
	x.Chart, x.Failing = model.NewRequestChart(t.menu.Span, rows), failing(rows)
	return x
}

// failing draws the share of failed requests in the steps that had some. A line of zeros is left out.
func failing(rows []ui.ChartRow) ui.Sparkline {
	shares, worst, whole := make([]float64, len(rows)), int64(0), int64(1)
	for i, row := range rows {
		n := row.Values[0] + row.Values[1]
		shares[i] = float64(row.Values[1]) / float64(n) // NaN: no requests
		if row.Values[1]*whole > worst*n {
			worst, whole = row.Values[1], n
		}
	}
	if worst == 0 {
		return ui.Sparkline{}
	}
	return ui.NewSparkline("Failed requests, at most "+ui.Percent(worst, whole), shares)
}

// backlog is what waits for a destination.
type backlog struct {
	Unavailable string
	Events      int // that wait
	More        bool
	Oldest      web.Time // when the oldest was received; zero if More
	Path        string   // list of them
}

// readBacklog counts the open deliveries of a destination. It reads one page of events.
func readBacklog(v *ui.Visit, about url.Values, d *model.Destination) (b *backlog, err error) {
	query := maps.Clone(about)
	query.Set("status", waitingStatuses)
	b = &backlog{Path: ui.WithQuery(ui.EventsPath, query)}
	query.Set("limit", "100")
	var list wire.List[*model.EventRow]
	if b.Unavailable, err = v.TryGet("/v1/events", query, &list); err != nil || b.Unavailable != "" {
		return b, err
	}
	b.More = list.NextCursor != ""
	for _, x := range list.Data {
		if slices.ContainsFunc(x.Deliveries, func(s wire.DeliveryState) bool {
			return s.DestinationID == d.ID && model.IsOpen(s.Status)
		}) {
			b.Events++
			b.Oldest = x.ReceivedAt
		}
	}
	if b.More {
		b.Oldest = web.Time{}
	}
	return b, nil
}
