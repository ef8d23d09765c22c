package dashboard

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of recoveries.
const (
	recoveriesPath  = "/app/recoveries"
	newRecoveryPath = recoveriesPath + "/new"
	recoveryPath    = recoveriesPath + "/{recovery}"
)

// recoveriesPage is the data of the list of recoveries.
type recoveriesPage struct {
	*jobList
	Jobs []*recoveryData
}

// listRecoveries shows the recoveries of the last 30 days, newest first.
func listRecoveries(v *visit) error {
	p := &recoveriesPage{}
	var err error
	states := event.Convert[string](config.RecoveryStates()...)
	if p.jobList, err = listJobs(v, "recoveries", states, &p.Jobs); err != nil {
		return err
	}
	for _, j := range p.Jobs {
		j.EndpointName, j.CreatedBy = v.endpointName(j.EndpointID), v.nameOf(j.CreatedBy)
	}
	return v.page("recoveries", p)
}

// recoveryForm is the data of the form of a new recovery. Its first part is a GET form that chooses the endpoint and
// the time; the second shows why deliveries failed since then, and prepares the job.
type recoveryForm struct {
	Form *form // of the job, and of the choice
	endpointChoices
	Endpoint     *endpointData
	Destinations []option // enabled ones
	Disabled     int      // number of destinations that take no deliveries
	Causes       []*cause
	Events       int  // number of events that Causes were counted from
	More         bool // more events have failed
	Unavailable  string
	FailedPath   string // list of the failed events
}

// defaultSince is how long ago the time begins that a new recovery selects from, if nobody chooses another.
const defaultSince = 24 * time.Hour

// defaultRate is the rate of a new recovery, in deliveries a second.
const defaultRate = 20

func newRecoveryForm(v *visit) error {
	asked := v.r.URL.Query()
	shown := filtersOf(asked, []string{"endpoint_id", "since", "destination_id", "rate_per_second"})
	if shown.Get("since") == "" {
		shown.Set("since", v.deps.Now().Add(-defaultSince).UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	if shown.Get("rate_per_second") == "" {
		shown.Set("rate_per_second", strconv.Itoa(defaultRate))
	}
	return showRecoveryForm(v, newForm(shown, ""))
}

// showRecoveryForm shows the form with what its endpoint and time select.
func showRecoveryForm(v *visit, f *form) error {
	p := &recoveryForm{Form: f, endpointChoices: v.endpointChoices("")}
	if v.r.Method == http.MethodGet {
		f.ReadOnly = true
	}
	endpoint := f.Value("endpoint_id")
	if endpoint == "" {
		return v.page("recovery-new", p)
	}
	e := &endpointData{}
	err := v.get("/v1/endpoints/"+url.PathEscape(endpoint), nil, e)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		v.status = f.setError(&apiError{Status: http.StatusBadRequest, Param: "endpoint_id",
			Message: "is no endpoint; it may have been deleted"})
		return v.page("recovery-new", p)
	} else if err != nil {
		return err
	}
	p.Endpoint = e
	for i := range e.Destinations {
		if d := &e.Destinations[i]; d.Enabled {
			p.Destinations = append(p.Destinations, option{Value: d.ID, Text: d.Title()})
		} else {
			p.Disabled++
		}
	}
	if err := readCauses(v, p); err != nil {
		return err
	}
	return v.page("recovery-new", p)
}

// readCauses counts why the newest events of the endpoint have failed.
func readCauses(v *visit, p *recoveryForm) error {
	var list struct {
		Data       []*eventRow `json:"data"`
		NextCursor string      `json:"next_cursor"`
	}
	query := url.Values{"endpoint_id": {p.Endpoint.ID}, "status": {"failed"}, "since": {p.Form.Value("since")}}
	if d := p.Form.Value("destination_id"); d != "" {
		query.Set("destination_id", d)
	}
	p.FailedPath = eventsPath + "?" + query.Encode()
	query.Set("limit", "100")
	err := v.get("/v1/events", query, &list)
	switch x, ok := errors.AsType[*apiError](err); {
	case ok && x.isUnavailable():
		p.Unavailable = sentence(x.Message)
	case ok && x.Status == http.StatusBadRequest && p.Form.Error == "":
		v.status = p.Form.setError(x)
	case ok && x.Status == http.StatusBadRequest:
	case err != nil:
		return err
	}
	p.Causes, p.Events, p.More = causesOf(list.Data, destinationNames(p.Endpoint)), len(list.Data), list.NextCursor != ""
	return explainCauses(v, p.Causes)
}

// maxExplained is how many causes are explained with their newest delivery, each with a read of its event.
const maxExplained = 5

// explainCauses adds to the most frequent causes what the list does not know: the last answer, or the operation that
// failed. A cause whose event cannot be read keeps the sentence of the list.
func explainCauses(v *visit, causes []*cause) error {
	for _, c := range causes[:min(len(causes), maxExplained)] {
		var e struct{ Deliveries []*deliveryData }
		err := v.get("/v1/events/"+url.PathEscape(c.event), nil, &e)
		if _, ok := errors.AsType[*apiError](err); err != nil && !ok {
			return err
		}
		for _, d := range e.Deliveries {
			if d.DestinationID == c.destination && textOf(d.Reason) == c.Reason {
				c.Example = d.Why
			}
		}
	}
	return nil
}

// destinationNames returns the names of an endpoint's destinations by id.
func destinationNames(e *endpointData) map[string]string {
	names := make(map[string]string, len(e.Destinations))
	for i := range e.Destinations {
		names[e.Destinations[i].ID] = e.Destinations[i].Title()
	}
	return names
}

// createRecovery prepares a job and opens its page. Preparing sends nothing.
func createRecovery(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	f.Refused = "Not prepared"
	body := map[string]any{"endpoint_id": f.Value("endpoint_id"), "since": strings.TrimSpace(f.Value("since"))}
	if d := f.Value("destination_id"); d != "" {
		body["destination_id"] = d
	}
	rate, err := strconv.Atoi(strings.TrimSpace(f.Value("rate_per_second")))
	if body["rate_per_second"] = rate; err != nil {
		body["rate_per_second"] = f.Value("rate_per_second") // the API says what is wrong with it
	}
	var j recoveryData
	err = v.send("POST", "/v1/recoveries", body, f.Nonce, &j)
	x, ok := errors.AsType[*apiError](err)
	if ok && (x.Status == http.StatusBadRequest || x.Status == http.StatusNotFound || x.Status >= 500) {
		if x.Status == http.StatusNotFound {
			x.Status = http.StatusBadRequest
		}
		v.status = f.setError(x)
		return showRecoveryForm(v, f)
	} else if err != nil {
		return err
	}
	return v.redirect(j.Path(), "")
}

// recoveryPageData is the data of the page of one job.
type recoveryPageData struct {
	*recoveryData
	Problem     string // why an action was not done
	CanaryItems []*recoveryItem
	*filteredList
	Items []*recoveryItem
	// Polled is the path that the page is fetched from again while the job goes on; empty: it has ended.
	Polled string
}

// itemStates are the states of an item, for the choice above the list.
var itemStates = []string{"pending", "queued", "delivered", "failed", "skipped"}

// States are the links above the list of items.
func (p *recoveryPageData) States() []string { return itemStates }

// readRecovery reads the job in the path.
func readRecovery(v *visit) (*recoveryData, error) {
	j := &recoveryData{}
	err := v.get("/v1/recoveries/"+v.vars["recovery"], nil, j)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such recovery, or it is older than 30 days.")
	}
	j.CreatedBy = v.nameOf(j.CreatedBy)
	return j, err
}

func showRecovery(v *visit) error {
	j, err := readRecovery(v)
	if err != nil {
		return err
	}
	return showJob(v, j, "")
}

// showJob shows a job with what its canary did, and a page of its items.
func showJob(v *visit, j *recoveryData, problem string) error {
	p := &recoveryPageData{recoveryData: j, Problem: problem}
	names, err := nameParts(v, j)
	if err != nil {
		return err
	}
	if j.Canary.Total > 0 {
		if p.CanaryItems, err = readCanary(v, j, names); err != nil {
			return err
		}
	}
	if part := v.r.Header.Get("HX-Target"); v.isFragment() && part == "job" {
		p.filteredList = &filteredList{Filters: newForm(url.Values{}, "")}
	} else if p.filteredList, err = listRows(v, j.api()+"/items", j.Path(), []string{"state"}, &p.Items); err != nil {
		return err
	}
	items := maps.Clone(p.Filters.values)
	items.Set("id", j.ID)
	p.CSV = csvLink("recovery-items", items)
	for _, x := range p.Items {
		x.Destination = destinationName(names, x.DestinationID)
	}
	if !j.Ended() || j.Queued > 0 {
		p.Polled, v.selfReloading = j.Path(), true
		if state := p.Filters.Value("state"); p.First && state != "" {
			p.Polled += "?" + url.Values{"state": {state}}.Encode()
		}
	}
	return v.page("recovery", p)
}

// nameParts sets the names of the job's endpoint and destinations, and returns those of the destinations. Without the
// endpoint they are ids.
func nameParts(v *visit, j *recoveryData) (map[string]string, error) {
	e := &endpointData{}
	err := v.get("/v1/endpoints/"+url.PathEscape(j.EndpointID), nil, e)
	x, ok := errors.AsType[*apiError](err)
	if err != nil && (!ok || x.Status != http.StatusNotFound && !x.isUnavailable()) {
		return nil, err
	}
	names := destinationNames(e)
	j.EndpointName = e.Name
	for _, d := range j.ByDestination {
		d.Name = destinationName(names, d.ID)
	}
	j.setHeld(e)
	return names, nil
}

func destinationName(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return id
}

// readCanary reads the deliveries of the canary, in the order in which they are sent. Without the store there are none.
func readCanary(v *visit, j *recoveryData, names map[string]string) ([]*recoveryItem, error) {
	var list struct {
		Data []*recoveryItem `json:"data"`
	}
	err := v.get(j.api()+"/items", url.Values{"canary": {"true"}}, &list)
	if x, ok := errors.AsType[*apiError](err); ok && x.isUnavailable() {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	slices.Reverse(list.Data)
	for _, x := range list.Data {
		x.Destination = destinationName(names, x.DestinationID)
	}
	return list.Data, nil
}

// actOnRecovery returns the handler of an action on the job in the path. An action that is not allowed in the job's
// present state changes nothing; the page then says so and shows the state.
func actOnRecovery(action, message string) func(v *visit) error {
	return func(v *visit) error {
		f, err := v.form()
		if err != nil {
			return err
		}
		j, err := readRecovery(v)
		if err != nil {
			return err
		}
		err = v.send("POST", j.api(), map[string]any{"action": action}, f.Nonce, nil)
		if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusBadRequest {
			if j, err = readRecovery(v); err != nil {
				return err
			}
			v.status = x.Status
			return showJob(v, j, sentence(x.Message))
		} else if err != nil {
			return err
		}
		return v.redirect(j.Path(), message)
	}
}
