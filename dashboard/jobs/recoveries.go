package jobs

import (
	"cmp"
	"errors"
	"fmt"
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
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
)

// Paths of the pages of recoveries.
const (
	recoveryPath = ui.RecoveriesPath + "/{recovery}"
	recoveryAPI  = "/v1/recoveries/{recovery}"
)

// listRecoveries shows the recoveries of the last 30 days, newest first.
func listRecoveries(v *ui.Visit) error {
	p, err := listJobs[*recoveryData](v, "recoveries", event.Convert[string](jobs.RecoveryStates()...))
	if err != nil {
		return err
	}
	for _, j := range p.Rows {
		j.EndpointName, j.CreatedBy = v.EndpointName(j.EndpointID), v.NameOf(j.CreatedBy)
	}
	return v.Page("recoveries", p)
}

// recoveryForm is the data of the form of a new recovery. Its first part is a GET form that chooses the endpoint and
// the time; the second shows why deliveries failed since then, and prepares the job.
type recoveryForm struct {
	Form *ui.Form // of the job, and of the choice
	ui.EndpointChoices
	Endpoint     *model.Endpoint
	Destinations []ui.Option // enabled ones
	Disabled     int         // number of destinations that take no deliveries
	Causes       []*cause
	Events       int  // number of events that Causes were counted from
	More         bool // more events have failed
	Unavailable  string
	FailedPath   string // list of the failed events
	// Failing are the endpoints with failed events, while none is chosen.
	Failing []*failingEndpoint
}

// failingEndpoint is an endpoint in the form of a recovery of several.
type failingEndpoint struct {
	ID, Name string
	Events   int // failed ones
	Chosen   bool
}

// maxFailedPages bounds the reads that look for endpoints with failed events: each page has 100 events.
const maxFailedPages = 5

// readFailing reads which endpoints have failed events since the time of the form.
func readFailing(v *ui.Visit, p *recoveryForm) error {
	query := url.Values{"status": {"failed"}, "since": {p.Form.Value("since")}}
	p.FailedPath = ui.WithQuery(ui.EventsPath, query)
	query.Set("limit", "100")
	chosen := p.Form.Values["endpoint_id"]
	for range maxFailedPages {
		list, err := ui.ReadRows[*model.EventRow](v, "/v1/events", query)
		switch x, refused := ui.BadRequest(err); {
		case ui.IsUnavailable(err):
			p.Unavailable = ui.MessageOf(err)
			return nil
		case refused:
			if p.Form.Error == "" {
				v.Status = p.Form.SetError(x)
			}
			return nil
		case err != nil:
			return err
		}
		for _, e := range list.Data {
			i := slices.IndexFunc(p.Failing, func(x *failingEndpoint) bool { return x.ID == e.EndpointID })
			if name := v.EndpointName(e.EndpointID); i < 0 && name != "" {
				i, p.Failing = len(p.Failing), append(p.Failing, &failingEndpoint{ID: e.EndpointID, Name: name,
					Chosen: len(chosen) == 0 && len(p.Failing) < maxPreparedAtOnce || slices.Contains(chosen, e.EndpointID)})
			}
			if i >= 0 {
				p.Failing[i].Events++
			}
		}
		p.Events += len(list.Data)
		if p.More = list.NextCursor != ""; !p.More {
			break
		}
		query.Set("cursor", list.NextCursor)
	}
	return nil
}

// defaultSince is how long ago the time begins that a new recovery selects from, if nobody chooses another.
const defaultSince = 24 * time.Hour

// defaultRate is the rate of a new recovery, in deliveries a second.
const defaultRate = 20

func newRecoveryForm(v *ui.Visit) error {
	asked := v.R.URL.Query()
	shown := ui.FiltersOf(asked, []string{"endpoint_id", "since", "destination_id", "rate_per_second"})
	if shown.Get("since") == "" {
		shown.Set("since", v.Now().Add(-defaultSince).UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	if shown.Get("rate_per_second") == "" {
		shown.Set("rate_per_second", strconv.Itoa(defaultRate))
	}
	return showRecoveryForm(v, ui.NewForm(shown, ""))
}

// showRecoveryForm shows the form with what its endpoint and time select.
func showRecoveryForm(v *ui.Visit, f *ui.Form) error {
	p := &recoveryForm{Form: f, EndpointChoices: ui.NewEndpointChoices(v, "")}
	if v.R.Method == http.MethodGet {
		f.ReadOnly = true
	}
	endpoint := f.Value("endpoint_id")
	if endpoint == "" || len(f.Values["endpoint_id"]) > 1 {
		if err := readFailing(v, p); err != nil {
			return err
		}
		return v.Page("recovery-new", p)
	}
	e := &model.Endpoint{}
	err := v.Get("/v1/endpoints/"+url.PathEscape(endpoint), nil, e)
	if ui.StatusOf(err) == http.StatusNotFound {
		v.Refused(f, ui.Fault("endpoint_id", "is no endpoint; it may have been deleted"))
		return v.Page("recovery-new", p)
	} else if err != nil {
		return err
	}
	p.Endpoint = e
	for i := range e.Destinations {
		if d := &e.Destinations[i]; d.Enabled {
			p.Destinations = append(p.Destinations, ui.Option{Value: d.ID, Text: d.Title()})
		} else {
			p.Disabled++
		}
	}
	if err := readCauses(v, p); err != nil {
		return err
	}
	return v.Page("recovery-new", p)
}

// readCauses counts why the newest events of the endpoint have failed.
func readCauses(v *ui.Visit, p *recoveryForm) error {
	query := url.Values{"endpoint_id": {p.Endpoint.ID}, "status": {"failed"}, "since": {p.Form.Value("since")}}
	if d := p.Form.Value("destination_id"); d != "" {
		query.Set("destination_id", d)
	}
	p.FailedPath = ui.EventsPath + "?" + query.Encode()
	query.Set("limit", "100")
	list, err := ui.ReadRows[*model.EventRow](v, "/v1/events", query)
	switch x, refused := ui.BadRequest(err); {
	case ui.IsUnavailable(err):
		p.Unavailable = ui.MessageOf(err)
	case refused && p.Form.Error == "":
		v.Status = p.Form.SetError(x)
	case !refused && err != nil:
		return err
	}
	p.Causes, p.Events, p.More = causesOf(list.Data,
		model.DestinationNames(p.Endpoint)), len(list.Data), list.NextCursor != ""
	return explainCauses(v, p.Causes)
}

// maxExplained is how many causes are explained with their newest delivery, each with a read of its event.
const maxExplained = 5

// explainCauses adds to the most frequent causes what the list does not know: the last answer, or the operation that
// failed. A cause whose event cannot be read keeps the sentence of the list.
func explainCauses(v *ui.Visit, causes []*cause) error {
	for _, c := range causes[:min(len(causes), maxExplained)] {
		var e struct{ Deliveries []wire.Delivery }
		err := v.Get(ui.APIOf(c.EventID), nil, &e)
		if err != nil && ui.StatusOf(err) == 0 {
			return err
		}
		for _, d := range e.Deliveries {
			if d.DestinationID == c.destination && ui.TextOf(d.Reason) == c.Reason {
				c.Example = d.Why
			}
		}
	}
	return nil
}

// createRecovery prepares a job and opens its page. Preparing sends nothing.
func createRecovery(v *ui.Visit, f *ui.Form) error {
	f.Refused = "Not prepared"
	if endpoints := f.Values["endpoint_id"]; len(endpoints) > 1 {
		return createRecoveries(v, f, endpoints)
	}
	body := f.Entered("destination_id")
	body["endpoint_id"], body["since"] = f.Value("endpoint_id"), strings.TrimSpace(f.Value("since"))
	body["rate_per_second"] = ui.AsNumber(f.Value("rate_per_second"))
	var j recoveryData
	err := v.Do("POST /v1/recoveries", f, body, &j)
	if x, ok := errors.AsType[*ui.APIError](err); ok && x.Status == http.StatusNotFound {
		x.Status = http.StatusBadRequest // it is a field of the form
	}
	return v.Answer(f, err, func() error { return showRecoveryForm(v, f) },
		func() error { return v.Redirect(ui.PageOf(j.ID), "") })
}

// maxPreparedAtOnce is how many jobs one form prepares.
const maxPreparedAtOnce = 10

// createRecoveries prepares a job for each of several endpoints, and opens the list of jobs. An endpoint whose job is
// refused, for example because nothing has failed there, does not keep the others from theirs.
func createRecoveries(v *ui.Visit, f *ui.Form, endpoints []string) error {
	prepared, refused := 0, error(nil)
	var without []string
	endpoints = slices.Compact(slices.Sorted(slices.Values(endpoints)))
	if len(endpoints) > maxPreparedAtOnce {
		return v.Answer(f, ui.Fault("endpoint_id", "choose at most %d endpoints at once", maxPreparedAtOnce),
			func() error { return showRecoveryForm(v, f) }, nil)
	}
	for _, id := range endpoints {
		one := *f
		one.Nonce += "-" + id
		err := v.Do("POST /v1/recoveries", &one, ui.Object{"endpoint_id": id,
			"since": strings.TrimSpace(f.Value("since")), "rate_per_second": ui.AsNumber(f.Value("rate_per_second"))}, nil)
		switch status := ui.StatusOf(err); {
		case err == nil:
			prepared++
		case status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusForbidden:
			refused, without = err, append(without, cmp.Or(v.EndpointName(id), id)+": "+ui.MessageOf(err))
		default:
			return v.Answer(f, err, func() error { return showRecoveryForm(v, f) }, nil)
		}
	}
	if x, ok := errors.AsType[*ui.APIError](refused); ok && x.Status == http.StatusNotFound {
		x.Status = http.StatusBadRequest // it is a field of the form
	}
	if prepared == 0 {
		return v.Answer(f, refused, func() error { return showRecoveryForm(v, f) }, nil)
	}
	message := "Prepared " + ui.Plural(prepared, "recovery", "recoveries")
	if len(without) > 0 {
		message += ". Not prepared: " + ui.Truncate(strings.Join(without, "; "), 200)
	}
	return v.Redirect(ui.RecoveriesPath, message)
}

// recoveryPageData is the data of the page of one job.
type recoveryPageData struct {
	*recoveryData
	Problem     string // why an action was not done
	CanaryItems []*recoveryItem
	*ui.FilteredList[*recoveryItem]
	// Polled is the path that the page is fetched from again while the job goes on; empty: it has ended.
	Polled string
}

// readRecovery reads the job in the path.
func readRecovery(v *ui.Visit) (*recoveryData, error) {
	j := &recoveryData{}
	err := v.Get(recoveryAPI, nil, j)
	j.CreatedBy = v.NameOf(j.CreatedBy)
	return j, err
}

func showRecovery(v *ui.Visit, j *recoveryData) error {
	return showJob(v, j, "")
}

// showJob shows a job with what its canary did, and a page of its items.
func showJob(v *ui.Visit, j *recoveryData, problem string) error {
	p := &recoveryPageData{recoveryData: j, Problem: problem}
	names, err := nameParts(v, j)
	if err != nil {
		return err
	}
	if j.Canary.Total > 0 {
		if p.CanaryItems, err = readCanary(v, names); err != nil {
			return err
		}
	}
	if v.Part() == "job" {
		p.FilteredList = &ui.FilteredList[*recoveryItem]{Filters: ui.NewForm(url.Values{}, "")}
	} else if p.FilteredList, err = ui.ListRows[*recoveryItem](v, recoveryAPI+"/items", ui.PageOf(j.ID),
		[]string{"state"}); err != nil {
		return err
	}
	p.CSV = ui.WithQuery(ui.CSVLink("recovery-items", nil), p.Filters.Values, "id", j.ID)
	for _, x := range p.Rows {
		x.Destination = model.DestinationName(names, x.DestinationID)
	}
	if !j.State.Ended() || j.Queued > 0 {
		p.Polled, v.SelfReloading = ui.PageOf(j.ID), true
		if p.First {
			p.Polled = ui.WithQuery(p.Polled, p.Filters.Values)
		}
	}
	return v.Page("recovery", p)
}

// nameParts sets the names of the job's endpoint and destinations, and returns those of the destinations. Without the
// endpoint they are ids.
func nameParts(v *ui.Visit, j *recoveryData) (map[string]string, error) {
	e, err := model.FindEndpoint(v, j.EndpointID)
	if err != nil {
		return nil, err
	}
	names := model.DestinationNames(e)
	j.EndpointName = e.Name
	for _, d := range j.ByDestination {
		d.Name = model.DestinationName(names, d.ID)
	}
	j.setHeld(e)
	return names, nil
}

// readCanary reads the deliveries of the canary, in the order in which they are sent. Without the store there are none.
func readCanary(v *ui.Visit, names map[string]string) ([]*recoveryItem, error) {
	var list wire.List[*recoveryItem]
	if _, err := v.TryGet(recoveryAPI+"/items", url.Values{"canary": {"true"}}, &list); err != nil {
		return nil, err
	}
	slices.Reverse(list.Data)
	for _, x := range list.Data {
		x.Destination = model.DestinationName(names, x.DestinationID)
	}
	return list.Data, nil
}

// actOnRecovery returns the handler of an action on the job in the path. An action that is not allowed in the job's
// present state changes nothing; the page then says so and shows the state.
func actOnRecovery(action, message string) func(v *ui.Visit) error {
	return ui.Submit(func(v *ui.Visit, f *ui.Form) error {
		err := v.Do("POST "+recoveryAPI, f, ui.Object{"action": action}, nil)
		if x, ok := ui.BadRequest(err); ok {
			j, err := readRecovery(v)
			if err != nil {
				return err
			}
			v.Status = x.Status
			return showJob(v, j, ui.Sentence(x.Message))
		} else if err != nil {
			return err
		}
		return v.Redirect(v.Fill(recoveryPath), message)
	})
}

// recoveryData is a recovery job of the API.
type recoveryData struct {
	wire.Recovery
	ByDestination []*recoveryPart `json:"by_destination"`

	EndpointName string `json:"-"` // empty: the endpoint was deleted, or could not be read
	// Held says which destinations of the job are paused, which holds all of it; empty if none is.
	Held string `json:"-"`
}

// setHeld puts a sentence with the names of what is paused in place of the warnings about it.
func (j *recoveryData) setHeld(e *model.Endpoint) {
	warned := len(j.Warnings)
	j.Warnings = slices.DeleteFunc(j.Warnings, func(x wire.Warning) bool {
		return x.Param == "endpoint_id" || x.Param == "destination_id"
	})
	if len(j.Warnings) == warned {
		return
	}
	var names []string
	for _, d := range j.ByDestination {
		if slices.ContainsFunc(e.Destinations, func(x model.Destination) bool { return x.ID == d.ID && x.Paused }) {
			names = append(names, d.Name)
		}
	}
	switch {
	case e.Paused:
		j.Held = "the endpoint is paused"
	case len(names) == 1:
		j.Held = "the destination " + names[0] + " is paused"
	case len(names) > 1:
		j.Held = fmt.Sprintf("%d destinations are paused", len(names))
	default: // the endpoint could not be read, or has changed since
		j.Held = "a destination is paused"
	}
}

// recoveryPart is the part of a job for one destination.
type recoveryPart struct {
	wire.RecoveryDestination
	Name string `json:"-"`
}

// Again is the form of a new job with the same selection.
func (j *recoveryData) Again() string {
	query := url.Values{"endpoint_id": {j.EndpointID}, "since": {j.Since.String()},
		"rate_per_second": {strconv.Itoa(j.RatePerSecond)}, "destination_id": {ui.TextOf(j.DestinationID)}}
	return ui.WithQuery(ui.NewRecoveryPath, ui.FiltersOf(query, slices.Collect(maps.Keys(query))))
}

// CanarySize is how many deliveries the canary sends.
func (j *recoveryData) CanarySize() int { return min(j.Pending, jobs.MaxCanaryDeliveries) }

// recoveryMarks are the marks of the states of a job; of others it is pending.
var recoveryMarks = map[jobs.RecoveryState]ui.Status{
	jobs.RecoveryCompleted: {Mark: "delivered"}, jobs.RecoveryReady: {Mark: "held", On: true},
	jobs.RecoveryAwaitingApproval: {Mark: "held", On: true}, jobs.RecoveryStopped: {Mark: "failed", On: true},
	jobs.RecoveryFailed: {Mark: "failed", On: true}, jobs.RecoveryCancelled: {Mark: "skipped"},
	jobs.RecoveryExpired: {Mark: "skipped"},
}

// Status is the state of the job with a mark.
func (j *recoveryData) Status() ui.Status {
	s := recoveryMarks[j.State]
	s.Word, s.Mark = strings.ReplaceAll(string(j.State), "_", " "), cmp.Or(s.Mark, "pending")
	return s
}

// recoverySteps are the steps of a job.
var recoverySteps = []string{"Prepare", "Canary", "Approve", "Run"}

// recoveryStep is one step for the template.
type recoveryStep struct {
	Name, Hint    string
	Done, Present bool
}

// Steps are the steps of the job with what is known of each.
func (j *recoveryData) Steps() []recoveryStep {
	present := map[jobs.RecoveryState]int{
		jobs.RecoveryPreparing: 0, jobs.RecoveryReady: 1, jobs.RecoveryCanaryRunning: 1,
		jobs.RecoveryAwaitingApproval: 2, jobs.RecoveryRunning: 3,
	}
	at, open := present[j.State]
	switch continued := j.Delivered+j.Failed+j.Queued > j.Canary.Total; {
	case open:
	case j.State == jobs.RecoveryFailed: // the preparation failed
	case j.State == jobs.RecoveryCompleted:
		at = len(recoverySteps)
	case continued:
		at = 3
	case j.Canary.Total > 0 && j.Canary.Delivered == j.Canary.Total:
		at = 2
	default:
		at = 1
	}
	steps := make([]recoveryStep, len(recoverySteps))
	for i, name := range recoverySteps {
		steps[i] = recoveryStep{Name: name, Done: i < at, Present: open && i == at}
	}
	if j.State != jobs.RecoveryPreparing {
		steps[0].Hint = ui.Number(int64(j.Total)) + " selected"
	}
	if j.Canary.Total > 0 {
		steps[1].Hint = fmt.Sprintf("%d of %d delivered", j.Canary.Delivered, j.Canary.Total)
	}
	if j.State == jobs.RecoveryAwaitingApproval {
		steps[2].Hint = "waits for you"
	}
	steps[3].Hint = fmt.Sprintf("at %d a second", j.RatePerSecond)
	return steps
}

// recoveryItem is a delivery of a job.
type recoveryItem struct {
	wire.RecoveryItem
	Destination string `json:"-"` // its name
}

// Status is the state of the item with a mark.
func (x *recoveryItem) Status() ui.Status {
	if x.State == event.ItemQueued {
		return ui.Status{Word: string(x.State), Mark: "pending"}
	}
	return ui.NewStatus(string(x.State))
}

// cause is a reason for which deliveries to a destination have failed.
type cause struct {
	Destination, Reason string
	Count               int64
	Example             string // the newest event with it, in a sentence
	EventID             string // of the example

	destination string // id
}

// causesOf counts the reasons of failed deliveries, the most frequent first. names are those of destinations.
func causesOf(events []*model.EventRow, names map[string]string) []*cause {
	var causes []*cause
	for _, e := range events {
		for _, d := range e.Deliveries {
			if d.Status != event.Failed {
				continue
			}
			name, reason := model.DestinationName(names, d.DestinationID), ui.TextOf(d.Reason)
			i := slices.IndexFunc(causes, func(c *cause) bool { return c.Destination == name && c.Reason == reason })
			if i < 0 {
				i, causes = len(causes), append(causes,
					&cause{Destination: name, Reason: reason, Example: e.Why, EventID: e.ID,
						destination: d.DestinationID})
			}
			causes[i].Count++
		}
	}
	slices.SortStableFunc(causes, func(a, b *cause) int { return int(b.Count - a.Count) })
	return causes
}
