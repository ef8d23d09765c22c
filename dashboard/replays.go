package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
)

// Paths of the pages of replays.
const (
	replaysPath   = "/app/replays"
	newReplayPath = replaysPath + "/new"
	dryRunPath    = replaysPath + "/dry-run"
	replayPath    = replaysPath + "/{run}"
	replayAPI     = "/v1/replays/{run}"
)

// replayRoutes are the pages and actions of replays.
func replayRoutes() []route {
	return []route{
		{"GET", replaysPath, reader, listReplays},
		{"GET", newReplayPath, writer, newReplayForm},
		{"POST", dryRunPath, writer, submit(dryRun)},
		{"POST", replaysPath, writer, submit(startReplay)},
		{"GET", replayPath, reader, show(readRun, showReplay)},
		{"POST", replayPath + "/cancel", writer, change(readRun, cancelReplay)},
	}
}

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
func (x *runData) Status() status {
	s := status{Word: string(x.State), Mark: "pending"}
	switch {
	case x.State == "cancelled":
		s.Mark = "skipped"
	case x.State == "interrupted":
		s.Mark, s.On = "failed", true
	case x.State == "queued" && x.Open() == 0 && x.Failed > 0:
		s.Word, s.Mark, s.On = "ended", "failed", true
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
	for _, name := range append([]string{"event_id"}, replayFilters()...) {
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
func listReplays(v *visit) error {
	p, err := listJobs[*runData](v, "replays", runStates)
	if err != nil {
		return err
	}
	for _, x := range p.Rows {
		x.endpointName = v.endpointName
		x.CreatedBy = v.nameOfAny(x.CreatedBy)
	}
	return v.page("replays", p)
}

// replayForm is the data of the form of a new replay, and of its dry run.
type replayForm struct {
	Form *form
	endpointChoices
	Plan *replayPlan // what a dry run has found; nil: there was none
}

// replayPlan is what a replay will do.
type replayPlan struct {
	Events, Queued int
	Time           string // how long it takes to send
	Warnings       []wire.Warning
	Fields         []option // of the selection, for the form that starts it
}

// replayFilters are the filters by which a replay selects.
func replayFilters() (names []string) {
	for _, f := range event.Filters {
		if f.Replay {
			names = append(names, f.Name)
		}
	}
	return names
}

// replayFields are the fields of the form.
func replayFields() []string { return append(replayFilters(), "since", "until", "rate_per_second") }

// defaultReplayRate is the rate of a replay unless somebody chooses another, in deliveries a second.
const defaultReplayRate = "50"

// replayLink returns the path of the form of a new replay with the selection of a list of events, or "" if a replay
// selects by none of its filters, or cannot select by one of them. oldest is the last event of the list.
func replayLink(query url.Values, oldest *eventRow) string {
	selected := filtersOf(query, replayFilters())
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
	return newReplayPath + "?" + selected.Encode()
}

// newReplayForm shows the form with the selection of the URL, such as that of a list of events.
func newReplayForm(v *visit) error {
	shown := filtersOf(v.r.URL.Query(), replayFields())
	if shown.Get("since") == "" {
		shown.Set("since", v.deps.Now().Add(-24*time.Hour).UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	if shown.Get("rate_per_second") == "" {
		shown.Set("rate_per_second", defaultReplayRate)
	}
	return showReplayForm(v, newForm(shown, ""), nil)
}

func showReplayForm(v *visit, f *form, plan *replayPlan) error {
	p := &replayForm{Form: f, Plan: plan, endpointChoices: newEndpointChoices(v, f.Value("endpoint_id"))}
	return v.page("replay-new", p)
}

// selectionOf returns the body of POST /v1/replays for a form: only what was entered.
func selectionOf(f *form) map[string]any {
	body := f.entered(replayFields()...)
	if rate := f.Value("rate_per_second"); strings.TrimSpace(rate) != "" {
		body["rate_per_second"] = asNumber(rate)
	}
	return body
}

// dryRun says what a replay would do. It sends nothing.
func dryRun(v *visit, f *form) error {
	f.ReadOnly = true
	body := selectionOf(f)
	body["dry_run"] = true
	var found wire.ReplayResult
	again := func() error { return showReplayForm(v, f, nil) }
	return v.answer(f, v.send("POST", "/v1/replays", body, "", &found), again, func() error {
		f.Nonce = newNonce() // the form that starts the run is another one
		return showReplayForm(v, f, planOf(f, &found))
	})
}

// planOf says what a replay will do, from its dry run.
func planOf(f *form, found *wire.ReplayResult) *replayPlan {
	plan := &replayPlan{Events: found.Events, Queued: found.Queued, Warnings: found.Warnings}
	for _, name := range replayFields() {
		if text := strings.TrimSpace(f.Value(name)); text != "" {
			plan.Fields = append(plan.Fields, option{Value: text, Text: name})
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
func startReplay(v *visit, f *form) error {
	f.Refused = "Not sent"
	var started wire.ReplayResult
	return v.ask("POST /v1/replays", f, selectionOf(f), &started, func() error { return showReplayForm(v, f, nil) },
		func() error {
			if started.RunID == nil {
				return v.redirect(replaysPath, "")
			}
			return v.redirect(pageOf(*started.RunID), plural(started.Queued, "delivery", "deliveries")+" queued")
		})
}

// replayPageData is the data of the page of one run.
type replayPageData struct {
	*runData
	Polled string // path that the page is fetched from again while the run goes on; empty: it has ended
}

// readRun reads the run in the path.
func readRun(v *visit) (*runData, error) {
	x := &runData{}
	err := v.get(replayAPI, nil, x)
	x.CreatedBy = v.nameOfAny(x.CreatedBy)
	return x, err
}

// showReplay shows how far a run is.
func showReplay(v *visit, x *runData) error {
	x.endpointName = v.endpointName
	p := &replayPageData{runData: x}
	if x.GoesOn() {
		p.Polled, v.selfReloading = pageOf(x.RunID), true
	}
	return v.page("replay", p)
}

// cancelReplay cancels the run in the path.
func cancelReplay(v *visit, f *form, x *runData) error {
	if err := v.do("POST "+replayAPI, f, members{"action": "cancel"}, nil); err != nil {
		return err
	}
	return v.redirect(pageOf(x.RunID), fmt.Sprintf("Cancelled. What was not sent of %s is skipped.",
		plural(x.Queued, "delivery", "deliveries")))
}
