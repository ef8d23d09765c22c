package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of replays.
const (
	dryRunPath = ui.ReplaysPath + "/dry-run"
	replayPath = ui.ReplaysPath + "/{run}"
	replayAPI  = "/v1/replays/{run}"
)

// runData is a replay run as the API returns it.
type runData struct {
	wire.ReplayRun
	endpointName func(id string) string // nil: endpoints are shown by their id
}

// Open is how many queued deliveries have not ended.
func (x *runData) Open() int { return max(0, x.Queued-x.Delivered-x.Failed-x.Skipped) }

// GoesOn reports whether the counts will still change.
func (x *runData) GoesOn() bool { return x.State == "queueing" || x.Open() > 0 }

// Status is the state with a mark.
func (x *runData) Status() ui.Status {
	s := ui.Status{Word: string(x.State), Mark: "pending"}
	switch {
	case x.State == "cancelled":
		s.Mark = "skipped"
	case x.State == "interrupted":
		s.Mark, s.On = "failed", true
	case x.State == "queued" && x.Open() == 0 && x.Failed > 0:
		s.Word, s.Mark, s.On = "ended, "+ui.Number(int64(x.Failed))+" failed", "failed", true
	case x.State == "queued" && x.Open() == 0:
		s.Word, s.Mark = "ended", "delivered"
	case x.State == "queued":
		s.Word = "sending"
	}
	return s
}

// rawText is the text of a JSON string or number; empty for null.
func rawText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return strings.TrimPrefix(string(raw), "null")
}

// textsOf returns the values of a filter, which is one value or a list.
func textsOf(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) != nil {
		return []string{rawText(raw)}
	}
	return many
}

// FilterText is the filter in words.
func (x *runData) FilterText() string {
	var filter map[string]json.RawMessage
	if json.Unmarshal(x.Filter, &filter) != nil {
		return string(x.Filter)
	}
	var parts []string
	for _, name := range append([]string{"event_id"}, model.ReplayFilters()...) {
		raw, ok := filter[name]
		if !ok {
			continue
		}
		many := textsOf(raw)
		for i, id := range many {
			if name == "endpoint_id" && x.endpointName != nil {
				many[i] = cmp.Or(x.endpointName(id), id)
			}
		}
		parts = append(parts, strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", " ")+" "+strings.Join(many, ", "))
	}
	return strings.Join(parts, " · ")
}

// runStates are the states of a run.
var runStates = []string{"queueing", "queued", "interrupted", "cancelled"}

// listReplays shows the runs of the last 30 days, newest first.
func listReplays(v *ui.Visit) error {
	p, err := listJobs[*runData](v, "replays", runStates)
	if err != nil {
		return err
	}
	for _, x := range p.Rows {
		x.endpointName = v.EndpointName
		x.CreatedBy = v.NameOfAny(x.CreatedBy)
	}
	return v.Page("replays", p)
}

// replayForm is the data of the form of a new replay, and of its dry run.
type replayForm struct {
	Form *ui.Form
	ui.EndpointChoices
	Plan *replayPlan // what a dry run has found; nil: there was none
}

// replayPlan is what a replay will do.
type replayPlan struct {
	Events, Queued int
	Time           string // how long it takes to send
	// OnlyUndelivered says that destinations are left out which have the event.
	OnlyUndelivered bool
	Warnings        []wire.Warning
	Fields          []ui.Option // of the selection, for the form that starts it
}

// onlyUndelivered is the field that leaves out destinations which have the event.
const onlyUndelivered = "only_undelivered"

// replayFields are the fields of the form.
func replayFields() []string {
	return append(model.ReplayFilters(), "since", "until", "rate_per_second", onlyUndelivered)
}

// defaultReplayRate is the rate of a replay unless somebody chooses another, in deliveries a second.
const defaultReplayRate = "50"

// newReplayForm shows the form with the selection of the URL, such as that of a list of events.
func newReplayForm(v *ui.Visit) error {
	shown := ui.FiltersOf(v.R.URL.Query(), replayFields())
	if shown.Get("since") == "" {
		shown.Set("since", v.Now().Add(-24*time.Hour).UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	if status := shown.Get("status"); status == "" || status == "failed" {
		shown.Set(onlyUndelivered, "true")
	}
	if shown.Get("rate_per_second") == "" {
		shown.Set("rate_per_second", defaultReplayRate)
	}
	return showReplayForm(v, ui.NewForm(shown, ""), nil)
}

func showReplayForm(v *ui.Visit, f *ui.Form, plan *replayPlan) error {
	p := &replayForm{Form: f, Plan: plan, EndpointChoices: ui.NewEndpointChoices(v, f.Value("endpoint_id"))}
	chosen := f.Value("destination_id")
	if !slices.ContainsFunc(p.Destinations, func(o ui.Option) bool { return o.Value == chosen }) && chosen != "" {
		p.Destinations = append(p.Destinations, ui.Option{Value: chosen, Text: chosen})
	}
	return v.Page("replay-new", p)
}

// selectionOf returns the body of POST /v1/replays for a form: only what was entered.
func selectionOf(f *ui.Form) map[string]any {
	body := f.Entered(replayFields()...)
	delete(body, onlyUndelivered)
	if f.Value(onlyUndelivered) == "true" {
		body[onlyUndelivered] = true
	}
	if rate := f.Value("rate_per_second"); strings.TrimSpace(rate) != "" {
		body["rate_per_second"] = ui.AsNumber(rate)
	}
	return body
}

// dryRun says what a replay would do. It sends nothing.
func dryRun(v *ui.Visit, f *ui.Form) error {
	f.ReadOnly = true
	body := selectionOf(f)
	if len(f.Entered(model.ReplayFilters()...)) == 0 {
		e, _ := ui.BadRequest(ui.Fault("endpoint_id", "choose at least an endpoint, a destination, a status or a type"))
		v.Status = f.SetError(e)
		return showReplayForm(v, f, nil)
	}
	body["dry_run"] = true
	var found wire.ReplayResult
	again := func() error { return showReplayForm(v, f, nil) }
	return v.Answer(f, v.Send("POST", "/v1/replays", body, "", &found), again, func() error {
		f.Nonce = ui.NewNonce() // the form that starts the run is another one
		return showReplayForm(v, f, planOf(f, &found, v.Now()))
	})
}

// planOf says what a replay will do, from its dry run.
func planOf(f *ui.Form, found *wire.ReplayResult, now time.Time) *replayPlan {
	plan := &replayPlan{Events: found.Events, Queued: found.Queued, Warnings: found.Warnings,
		OnlyUndelivered: f.Value(onlyUndelivered) == "true"}
	for _, name := range replayFields() {
		if text := strings.TrimSpace(f.Value(name)); text != "" {
			if at, ok := web.ParseMoment(text, now); ok && (name == "since" || name == "until") {
				text = at.UTC().Format(time.RFC3339Nano) // the run selects what the dry run has counted
			}
			plan.Fields = append(plan.Fields, ui.Option{Value: text, Text: name})
		}
	}
	if rate, err := strconv.Atoi(strings.TrimSpace(f.Value("rate_per_second"))); err == nil && rate > 0 {
		plan.Time = inWords(time.Duration(found.Queued) * time.Second / time.Duration(rate))
	}
	return plan
}

// inWords returns a duration for people: under a second, about 1 min 4 s.
func inWords(d time.Duration) string {
	if d < time.Second {
		return "under a second"
	}
	return "about " + strings.NewReplacer("h", "\u00a0h ", "m", "\u00a0min ", "s", "\u00a0s").Replace(
		d.Round(time.Second).String())
}

// startReplay queues the deliveries of a selection and opens the page of the run.
func startReplay(v *ui.Visit, f *ui.Form) error {
	f.Refused = "Not sent"
	var started wire.ReplayResult
	return v.Ask("POST /v1/replays", f, selectionOf(f), &started, func() error { return showReplayForm(v, f, nil) },
		func() error {
			if started.RunID == nil {
				return v.Redirect(ui.ReplaysPath, "")
			}
			return v.Redirect(ui.PageOf(*started.RunID), ui.Plural(started.Queued, "delivery", "deliveries")+" queued")
		})
}

// replayPageData is the data of the page of one run.
type replayPageData struct {
	*runData
	Polled string // path that the page is fetched from again while the run goes on; empty: it has ended
	// Failures is the path of the run's failed events, Newest the answer to the newest of them, and Again the path of a
	// new replay with the same selection and the status failed; all are empty without a failure.
	Failures, Newest, Again string
}

// again is the form of a replay of what failed of the same selection.
func (x *runData) again() string {
	query := url.Values{"status": {"failed"}, "since": {x.Since.String()}, "until": {x.Until.String()}}
	var filter map[string]json.RawMessage
	if json.Unmarshal(x.Filter, &filter) != nil {
		return ""
	}
	for _, name := range []string{"endpoint_id", "destination_id", "type"} {
		if many := textsOf(filter[name]); len(many) == 1 && many[0] != "" {
			query.Set(name, many[0])
		}
	}
	return ui.WithQuery(ui.NewReplayPath, query)
}

// addFailures adds what failed in a run.
func (p *replayPageData) addFailures(v *ui.Visit) error {
	if p.Failed == 0 {
		return nil
	}
	about := url.Values{"run_id": {p.RunID}, "status": {"failed"}}
	p.Failures, p.Again = ui.WithQuery(ui.EventsPath, about), p.again()
	var list wire.List[*model.EventRow]
	about.Set("limit", "1")
	unavailable, err := v.TryGet("/v1/events", about, &list)
	switch {
	case unavailable != "":
		p.Newest = "what was answered is not known at the moment"
	case err == nil && len(list.Data) > 0:
		list.Data[0].SetNames(v)
		p.Newest = list.Data[0].Answered()
	}
	return err
}

// readRun reads the run in the path.
func readRun(v *ui.Visit) (*runData, error) {
	x := &runData{}
	err := v.Get(replayAPI, nil, x)
	x.CreatedBy = v.NameOfAny(x.CreatedBy)
	return x, err
}

// showReplay shows how far a run is.
func showReplay(v *ui.Visit, x *runData) error {
	x.endpointName = v.EndpointName
	p := &replayPageData{runData: x}
	if x.GoesOn() {
		p.Polled, v.SelfReloading = ui.PageOf(x.RunID), true
	}
	if err := p.addFailures(v); err != nil {
		return err
	}
	return v.Page("replay", p)
}

// cancelReplay cancels the run in the path.
func cancelReplay(v *ui.Visit, f *ui.Form, x *runData) error {
	if err := v.Do("POST "+replayAPI, f, ui.Object{"action": "cancel"}, nil); err != nil {
		return err
	}
	return v.Redirect(ui.PageOf(x.RunID), fmt.Sprintf("Cancelled. What was not sent of %s is skipped.",
		ui.Plural(x.Queued, "delivery", "deliveries")))
}
