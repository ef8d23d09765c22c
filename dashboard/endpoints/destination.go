package endpoints

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
)

// destinationPage is the data of the pages of one destination.
type destinationPage struct {
	*endpointPage
	Destination *model.Destination  // nil: a new one
	Traffic     *destinationTraffic // nil: not read
	destinationOverview
}

// destinationOverview is what the page of a destination shows of its deliveries.
type destinationOverview struct {
	All         *trafficView
	Failures    []*model.EventRow // the newest events with a failed or retrying delivery
	FailedPath  string            // list of them
	RecoverPath string            // form that recovers what has failed
	Consumers   []wire.Consumer   // of one that is pulled
}

// failedStatuses are the states of events of which a delivery has failed.
const failedStatuses = "failed,retrying"

// recoverSince is how long ago the time begins that a recovery of a destination selects from.
const recoverSince = 24 * time.Hour

// shownFailures is how many failures the page of a destination shows.
const shownFailures = 5

func newDestinationPage(e *model.Endpoint, d *model.Destination, f *ui.Form) *destinationPage {
	p := &destinationPage{endpointPage: newEndpointPage(e), Destination: d}
	if p.Form = f; d != nil {
		p.Tab = p.Settings()
	}
	return p
}

// Self is the path of the destination's page.
func (p *destinationPage) Self() string { return ui.DestinationPageOf(p.ID, p.Destination.ID) }

// Settings is the path of the form of its settings, and Signing that of its secret.
func (p *destinationPage) Settings() string { return p.Self() + "/settings" }

func (p *destinationPage) Signing() string { return p.Self() + "/signing" }

// DestinationTabs are the pages of a destination.
func (p *destinationPage) DestinationTabs() []ui.MenuItem {
	return []ui.MenuItem{{Path: p.Self(), Name: "Overview"}, {Path: p.Events(), Name: "Events"},
		{Path: p.Rules(), Name: "Rules"}, {Path: p.Signing(), Name: "Signing"}, {Path: p.Settings(), Name: "Settings"}}
}

// Events is the path of the list of its events.
func (p *destinationPage) Events() string { return ui.WithQuery(ui.EventsPath, p.about()) }

// about selects the events that are delivered to it.
func (p *destinationPage) about() url.Values {
	return url.Values{"endpoint_id": {p.ID}, "destination_id": {p.Destination.ID}}
}

// destinationFields are the settings of a destination.
var destinationFields = append(ui.FieldTable{{ui.OptionalText, "name"}, {ui.TrimmedField, "url"}},
	destinationGroup.table()...)

// destinationGroup is the fields that a destination of every kind has.
var destinationGroup = groupOf[config.DestinationSettings]("")

// Limits are the numbers among them.
func (p *destinationPage) Limits() settingGroup { return destinationGroup.numbers(true, p.Form) }

// Switches are the others.
func (p *destinationPage) Switches() settingGroup { return destinationGroup.numbers(false, p.Form) }

// Fields of a destination that destinationBody reads one by one.
var (
	filterFields = ui.FieldTable{{ui.LineField, "filter.types"}, {ui.JSONField, "filter.body"}}
	ruleFields   = ui.FieldTable{{ui.JSONField, "filter.match"}, {ui.OptionalText, "filter.when"}}
	// As JSON: most destinations have the policy of the endpoint, whose page has a field for each member.
	retriesField = ui.FieldTable{{ui.JSONField, "retry_policy"}}
	rateFields   = ui.FieldTable{{ui.NumberField, "rate_limit.per_second rate_limit.burst"}}
)

// destinationValues returns what the fields of a destination show. Their names are the API's parameters.
func destinationValues(d *model.Destination) url.Values {
	values := destinationFields.Values(d)
	maps.Copy(values, filterFields.Values(d))
	maps.Copy(values, ruleFields.Values(d))
	maps.Copy(values, rateFields.Values(d))
	maps.Copy(values, retriesField.Values(d))
	for _, g := range slices.Concat(settingGroups, schemeGroups) {
		maps.Copy(values, g.table().Values(d))
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		lines = append(lines, name+": "+d.Headers[name])
	}
	values.Set("headers", strings.Join(lines, "\n"))
	values.Set("signing.secret", "") // write-only
	return values
}

// newDestination has the defaults of the API.
func newDestination() *model.Destination {
	return &model.Destination{Destination: wire.Destination{DestinationSettings: config.NewDestinationSettings()}}
}

// destinationBody returns the members of a destination that a form changes, or what is wrong with it.
func destinationBody(f *ui.Form, stored url.Values, d *model.Destination) (map[string]any, error) {
	x := ui.NewEdit(f, stored)
	x.Set(destinationFields)
	setRateLimit(x)
	x.Set(retriesField)
	setSettings(x)
	setSchemes(x)
	if x.Changed("headers") {
		headers, err := headersOf(x.Value("headers"), d.Headers)
		if err != nil {
			return nil, err
		}
		x.Body["headers"] = headers
	}
	setFilter(x)
	if secret := strings.TrimSpace(x.Value("signing.secret")); secret != "" {
		x.Put("signing.secret", secret)
	}
	if algorithm := x.Value("signing.algorithm"); algorithm != "" { // only the form of a new one has it
		x.Put("signing.algorithm", algorithm)
	}
	return x.Body, nil
}

// setFilter sets the filter; without any field there is none.
func setFilter(x *ui.Edit) {
	names := []string{"filter.types", "filter.body", "filter.match", "filter.when"}
	if !x.Changed(names...) {
		return
	}
	maps.Copy(x.Body, filterFields.All(x.F))
	x.Set(ruleFields)
	if !slices.ContainsFunc(names, func(name string) bool { return strings.TrimSpace(x.Value(name)) != "" }) {
		x.Body["filter"] = nil
	}
}

// setRateLimit sets the rate limit. Without a burst it is that of one second.
func setRateLimit(x *ui.Edit) {
	const name = "rate_limit"
	if !x.Changed(name+".per_second", name+".burst") {
		return
	}
	rate, burst := strings.TrimSpace(x.Value(name+".per_second")), x.Value(name+".burst")
	if rate == "" {
		x.Body[name] = nil
		return
	}
	x.Put(name+".per_second", ui.AsNumber(rate))
	n, err := strconv.ParseFloat(rate, 64)
	switch {
	case strings.TrimSpace(burst) != "":
		x.Put(name+".burst", ui.AsNumber(burst))
	case x.Stored.Get(name+".burst") != "" && err == nil && n > 0 && n <= 1e6:
		x.Put(name+".burst", int(math.Ceil(n)))
	}
}

// headersOf returns the headers in lines of the form Name: value, and null for the stored ones that are gone.
func headersOf(text string, stored map[string]string) (map[string]any, error) {
	headers := map[string]any{}
	for i, line := range ui.AsLines(text) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !ok || twice {
			if twice {
				return nil, ui.Fault("headers", "line %d repeats the header %s", i+1, name)
			}
			return nil, ui.Fault("headers", "line %d must be a name, a colon and a value, such as X-Team: billing", i+1)
		}
		headers[name] = strings.TrimSpace(value)
	}
	for name := range stored {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(kept string) bool {
			return strings.EqualFold(kept, name)
		}) {
			headers[name] = nil
		}
	}
	return headers, nil
}

// newDestinationForm shows the form of a new destination.
func newDestinationForm(v *ui.Visit, e *model.Endpoint) error {
	values := destinationValues(newDestination())
	values.Set("kind", v.R.URL.Query().Get("kind"))
	return v.Page("destination", newDestinationPage(e, nil, ui.NewForm(values, "")))
}

// addDestination adds a destination and shows its signing secret, once.
func addDestination(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	d := &model.Destination{}
	body, err := destinationBody(f, destinationValues(newDestination()), newDestination())
	if err == nil {
		err = v.Do("POST "+endpointAPI+"/destinations", f, body, d)
	}
	return v.Answer(f, err, func() error {
		p := newDestinationPage(e, nil, f)
		p.Open = true
		return v.Page("destination", p)
	}, func() error { return showSecret(v, e, d, "Added "+d.Title()) })
}

// showSecret shows the signing secret of one destination.
func showSecret(v *ui.Visit, e *model.Endpoint, d *model.Destination, title string) error {
	p := newEndpointPage(e)
	p.Warnings = d.Warnings
	return v.Page("endpoint-created", created{endpointPage: p, Title: title, Secrets: []model.Destination{*d},
		Repeated: v.Replayed, Next: ui.DestinationPageOf(e.ID, d.ID), NextText: "Go on to the destination"})
}

// showSettings shows the form of the settings of a destination.
func showSettings(v *ui.Visit, at place) error {
	return v.Page("destination", newDestinationPage(at.e, at.d, ui.EditForm(destinationValues(at.d))))
}

// showSigning shows how deliveries to a destination are verified, and rotates its secret.
func showSigning(v *ui.Visit, at place) error {
	p := newDestinationPage(at.e, at.d, nil)
	p.Tab = p.Signing()
	return v.Page("destination-signing", p)
}

// showDestination shows the traffic of one destination.
func showDestination(v *ui.Visit, at place) error {
	p := newDestinationPage(at.e, at.d, nil)
	traffic, err := readTraffic(v, at.e, p.Self())
	if err != nil {
		return err
	}
	now, about := v.Now().UTC(), p.about()
	p.Tab = p.Self()
	p.Traffic = traffic.of(at.d, now)
	p.destinationOverview = destinationOverview{All: traffic.view(about, now, p.Traffic),
		FailedPath: ui.WithQuery(ui.EventsPath, about, "status", failedStatuses),
		RecoverPath: ui.WithQuery(ui.NewRecoveryPath, about, "since",
			now.Add(-recoverSince).Truncate(time.Minute).Format(time.RFC3339))}
	if p.All.Backlog, err = readBacklog(v, about, at.d); err != nil {
		return err
	}
	if at.d.Pull != nil {
		var consumers wire.Consumers
		if _, err = v.TryGet(destinationAPI+"/consumers", nil, &consumers); err != nil {
			return err
		}
		p.Consumers = consumers.Data
	}
	failed := maps.Clone(about)
	failed["status"], failed["limit"] = []string{failedStatuses}, []string{strconv.Itoa(shownFailures)}
	var list wire.List[*model.EventRow]
	if _, err = v.TryGet("/v1/events", failed, &list); err != nil {
		return err
	}
	p.Failures = list.Data
	for _, x := range p.Failures {
		x.SetNames(v)
	}
	return v.Page("destination", p)
}

// DestinationStatus is the state of the destination, with what its requests of the last hour say of it.
func (p *destinationPage) DestinationStatus() ui.Status {
	if p.Traffic != nil {
		return p.Traffic.Status()
	}
	return p.Destination.Status()
}

// DestinationState explains it.
func (p *destinationPage) DestinationState() string {
	d, x := p.Destination, p.Traffic
	switch {
	case x == nil:
		return d.Why()
	case x.Why() != "":
		return x.Why()
	case !x.Known:
		return "Whether its requests succeed is not known at the moment."
	}
	return "Events are delivered to it as they arrive."
}

// saveDestination saves the settings of a destination.
func saveDestination(v *ui.Visit, f *ui.Form, at place) error {
	stored, p := destinationValues(at.d), newDestinationPage(at.e, at.d, f)
	p.Open = true
	again := func() error { return v.Page("destination", p) }
	body, err := destinationBody(f, stored, at.d)
	if err != nil {
		if !f.IsStale(v, stored) && !v.Refused(f, err) {
			return err
		}
		return again()
	}
	after := &model.Destination{}
	return v.Save(ui.Saving{Form: f, Stored: stored, Body: body, Call: "PATCH " + destinationAPI, Out: after,
		Back: p.Settings(), Again: again, Then: func() error {
			if len(after.Warnings) == 0 {
				return v.Redirect(p.Settings(), "Saved")
			}
			p = newDestinationPage(at.e, after, ui.EditForm(destinationValues(after)))
			p.Warnings = after.Warnings
			return again()
		}})
}

// rotateSecret gives a destination another signing secret and shows it, once.
func rotateSecret(v *ui.Visit, f *ui.Form, at place) error {
	after := &model.Destination{}
	body := ui.Object{"overlap_seconds": ui.AsNumber(f.Value("overlap_seconds"))}
	if algorithm := f.Value("algorithm"); algorithm != "" {
		body["algorithm"] = algorithm
	}
	if err := v.Do("POST "+destinationAPI+"/rotate_secret", f, body, after); err != nil {
		return err
	}
	return showSecret(v, at.e, after, "New signing secret of "+after.Title())
}

// removeDestination removes a destination from its endpoint.
func removeDestination(v *ui.Visit, f *ui.Form, at place) error {
	if err := v.Do("DELETE "+destinationAPI, f, nil, nil); err != nil {
		return err
	}
	return v.Redirect(at.e.Path(), "Removed "+ui.Truncate(at.d.Title(), 100))
}

// purgePage is the data of the page that asks before open deliveries are ended.
type purgePage struct {
	*destinationPage
	Open        int    // deliveries that are open
	More        bool   // there are more than Open
	Unavailable string // why they could not be counted
	Before      string // time of the form; empty: now
}

// maxCountedPages bounds the reads of a count: each page has 100 events.
const maxCountedPages = 10

// Count is the number of open deliveries in words.
func (p *purgePage) Count() string {
	if p.More {
		return "more than " + ui.Plural(p.Open, "delivery", "deliveries")
	}
	return ui.Plural(p.Open, "delivery", "deliveries")
}

// Nothing reports whether it is certain that no delivery is open.
func (p *purgePage) Nothing() bool { return p.Unavailable == "" && p.Open == 0 && !p.More }

// localTime matches a time without a zone, to the minute.
var localTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$`)

// purgeTime returns the time in a form as the API takes it.
func purgeTime(f *ui.Form) string {
	before := strings.TrimSpace(f.Value("before"))
	if localTime.MatchString(before) {
		before += ":00Z"
	}
	return before
}

// confirmPurge counts the deliveries that a purge would end. It ends none.
func confirmPurge(v *ui.Visit, at place) error {
	return showPurge(v, at, ui.NewForm(url.Values{"before": {v.R.URL.Query().Get("before")}}, ""))
}

// showPurge shows the number of deliveries that the form ends, and asks.
func showPurge(v *ui.Visit, at place, f *ui.Form) error {
	p := &purgePage{destinationPage: newDestinationPage(at.e, at.d, f), Before: purgeTime(f)}
	if f.Error == "" {
		if err := p.count(v); err != nil {
			return err
		}
	}
	return v.Page("destination-purge", p)
}

// count counts the open deliveries of the events that were received before the time of the form.
func (p *purgePage) count(v *ui.Visit) error {
	query := url.Values{"destination_id": {p.Destination.ID}, "status": {waitingStatuses},
		"limit": {"100"}}
	if p.Before != "" {
		query.Set("until", p.Before)
	}
	for range maxCountedPages {
		list, err := ui.ReadRows[model.EventRow](v, "/v1/events", query)
		if ui.IsUnavailable(err) || ui.StatusOf(err) == http.StatusTooManyRequests {
			p.Unavailable = ui.MessageOf(err)
			return nil
		}
		if x, ok := ui.BadRequest(err); ok {
			x.Param, p.Form.ReadOnly = "before", true
			v.Status = p.Form.SetError(x)
			return nil
		} else if err != nil {
			return err
		}
		for _, e := range list.Data {
			if slices.ContainsFunc(e.Deliveries, func(d wire.DeliveryState) bool {
				return d.DestinationID == p.Destination.ID && model.IsOpen(d.Status)
			}) {
				p.Open++
			}
		}
		if p.More = list.NextCursor != ""; !p.More {
			return nil
		}
		query.Set("cursor", list.NextCursor)
	}
	return nil
}

// purgeDestination ends the open deliveries of a destination.
func purgeDestination(v *ui.Visit, f *ui.Form, at place) error {
	body := map[string]any{}
	if before := purgeTime(f); before != "" {
		body["before"] = before
	}
	f.Refused = "Not purged"
	return v.Ask("POST "+destinationAPI+"/purge", f, body, nil, func() error { return showPurge(v, at, f) },
		ui.Opens(v, ui.DestinationPageOf(at.e.ID, at.d.ID), "Purged. Open deliveries end as skipped."))
}

// place is a destination with its endpoint.
type place struct {
	e *model.Endpoint
	d *model.Destination
}

// readDestination reads the endpoint and the destination in the path. A destination that does not exist is a
// [*web.Error].
func readDestination(v *ui.Visit) (place, error) {
	e, err := readEndpoint(v)
	if err != nil {
		return place{}, err
	}
	d := e.Destination(v.Vars["destination"])
	if d == nil {
		return place{}, ui.NoDestination(e.Name)
	}
	return place{e, d}, nil
}
