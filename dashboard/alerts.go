package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of alerts.
const (
	alertsPath        = "/app/alerts"
	alertHistoryPath  = alertsPath + "/history"
	alertRulesPath    = alertsPath + "/rules"
	alertChannelsPath = alertsPath + "/channels"
)

// alertData is an alert of the API that fires or was resolved lately.
type alertData struct {
	wire.Alert
	Endpoint    string `json:"-"` // name of the endpoint; empty if it is not known
	Destination string `json:"-"`
	Muted       bool   `json:"-"` // no alert of the endpoint fires at the moment
}

// Title is the rule in words.
func (a *alertData) Title() string { return cmp.Or(ruleOf(a.Rule).Title, a.Rule) }

// Found is what the rule has found; empty for a rule that finds nothing but that.
func (a *alertData) Found() string {
	value, threshold, unit := textOfJSON(a.Value), textOfJSON(a.Threshold), ruleOf(a.Rule).Unit
	if value == "" {
		return ""
	}
	if a.Rule == "delivery_failed" {
		value = strings.ReplaceAll(value, "_", " ") // the reason's code
	}
	if value == "1" {
		unit = strings.TrimSuffix(unit, "s")
	}
	value += unit
	if threshold == "" {
		return value
	}
	if unit == percentUnit {
		threshold += unit
	}
	return value + ", threshold " + threshold
}

// percentUnit is the unit of a rule that compares shares.
const percentUnit = "\u00a0%"

// Path is the page of what the alert is about; empty if it is about the account.
func (a *alertData) Path() string {
	switch {
	case a.RecoveryID != nil:
		return pageOf(*a.RecoveryID)
	case a.EndpointID == nil:
		return ""
	case a.DestinationID != nil:
		return destinationPageOf(*a.EndpointID, *a.DestinationID)
	}
	return pageOf(*a.EndpointID)
}

// FailedPath is the list of the events whose deliveries failed for good; empty if the alert is about something else.
func (a *alertData) FailedPath() string {
	if a.Rule != "delivery_failed" || a.EndpointID == nil {
		return ""
	}
	return withQuery(eventsPath, nil, "endpoint_id", *a.EndpointID, "status", "failed")
}

// Subject names what the alert is about.
func (a *alertData) Subject() string {
	switch {
	case a.EndpointID == nil:
		return "the account"
	case a.Endpoint == "":
		return *a.EndpointID
	case a.Destination != "":
		return a.Endpoint + ", " + a.Destination
	}
	return a.Endpoint
}

// alertHistory is the data of the list of alerts.
type alertHistory struct {
	*filteredList[*alertData]
	endpointChoices
	Rules  []option
	Muted  []mutedEndpoint // endpoints of which no alert fires at the moment
	Spans  []option        // for how long an endpoint can be muted
	Silent bool            // no channel is on, so nothing is sent
}

var alertFilters = []string{"state", "rule", "endpoint_id"}

// muteSpans are for how long an endpoint can be muted, in hours.
var muteSpans = []option{{Value: "1", Text: "1\u00a0hour"}, {Value: "8", Text: "8\u00a0hours"},
	{Value: "24", Text: "1\u00a0day"}, {Value: "168", Text: "7\u00a0days"}}

// listAlerts shows the alerts that fire now and those of the last day.
func listAlerts(v *visit) error {
	p := &alertHistory{Spans: muteSpans}
	var err error
	p.filteredList, err = listRows[*alertData](v, "/v1/alerts/history", alertHistoryPath, alertFilters)
	if err != nil {
		return err
	}
	p.CSV = csvLink("alerts", p.Filters.values)
	for i := range alertRules {
		if name := alertRules[i].Name; name != "finding" { // findings have a list of their own
			p.Rules = append(p.Rules, option{Value: name, Text: alertRules[i].Title})
		}
	}
	if err := nameAlerts(v, p.Rows); err != nil {
		return err
	}
	p.endpointChoices = newEndpointChoices(v, "")
	for _, x := range p.Endpoints {
		if until := mutedUntil(v, x.Value); !until.IsZero() {
			p.Muted = append(p.Muted, mutedEndpoint{x.Value, x.Text, until})
		}
	}
	settings, err := readAlertSettings(v)
	if err != nil {
		return err
	}
	p.Silent = !newChannelsPage(settings).Sends()
	return v.page("alerts", p)
}

// mutedEndpoint is an endpoint of which no alert fires at the moment.
type mutedEndpoint struct {
	ID, Name string
	Until    time.Time
}

// mutedUntil returns until when no alert of an endpoint fires; zero if it is not muted.
func mutedUntil(v *visit, endpoint string) time.Time {
	if e := endpointOf(v, endpoint); e != nil {
		if until := e.AlertsOrDefault().MutedUntil; until.After(v.deps.Now()) {
			return until
		}
	}
	return time.Time{}
}

// nameAlerts sets the names of what the alerts are about. A destination without a name is shown by its URL, which the
// API may have to mask.
func nameAlerts(v *visit, alerts []*alertData) error {
	read := map[string]*endpointData{}
	for _, a := range alerts {
		id, destination := textOf(a.EndpointID), textOf(a.DestinationID)
		e := endpointOf(v, id)
		if e == nil {
			continue
		}
		a.Endpoint, a.Muted = e.Name, !mutedUntil(v, id).IsZero()
		i := slices.IndexFunc(e.Destinations, func(d config.Destination) bool { return d.ID == destination })
		if i < 0 {
			continue
		}
		if a.Destination = textOf(e.Destinations[i].Name); a.Destination != "" {
			continue
		}
		if read[id] == nil {
			var err error
			if read[id], err = findEndpoint(v, id); err != nil {
				return err
			}
		}
		if d := read[id].destination(destination); d != nil {
			a.Destination = d.Title()
		}
	}
	return nil
}

// findEndpoint reads an endpoint; without an id if it was deleted or cannot be read now.
func findEndpoint(v *visit, id string) (*endpointData, error) {
	e := &endpointData{}
	err := v.get(apiOf(id), nil, e)
	if isUnavailable(err) || statusOf(err) == http.StatusNotFound {
		return e, nil
	}
	return e, err
}

// muteAlerts mutes an endpoint for some hours; 0 hours end it.
func muteAlerts(v *visit, f *form) error {
	var until any
	message := "Its alerts fire again"
	if span := f.Value("hours"); span != "0" {
		hours, err := strconv.Atoi(span)
		if err != nil || !slices.ContainsFunc(muteSpans, func(o option) bool { return o.Value == span }) {
			return web.Invalid("", "Choose for how long the endpoint is muted.")
		}
		until = v.deps.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
		message = "Muted. None of its alerts fires until the mute ends. What is still wrong then fires."
	}
	call := "PATCH /v1/endpoints/" + url.PathEscape(f.Value("endpoint_id"))
	if err := v.do(call, f, members{"alerts": members{"muted_until": until}}, nil); err != nil {
		return err
	}
	return v.redirect(alertHistoryPath, message)
}

// alertRule describes a rule for its form.
type alertRule struct {
	Name, Title string
	Unit        string // of what it finds, with the space before it
	Members     []alertMember
}

// alertMember is a setting of a rule.
type alertMember struct {
	Name, Label string
	Choices     []option // nil: a number, or a list of numbers
}

// alertRules are the rules of the API in the order in which they are shown; a test compares them with it.
var alertRules = []alertRule{
	{Name: "delivery_failed", Title: "A delivery failed for good"},
	{Name: "consecutive_failures", Title: "Failed attempts in a row at a destination", Unit: " attempts",
		Members: []alertMember{{Name: "threshold", Label: "Attempts"}}},
	{Name: "failure_rate", Title: "Failure rate of a destination", Unit: percentUnit, Members: []alertMember{
		{Name: "percent", Label: "Percent"}, {Name: "window_seconds", Label: "Within seconds"},
		{Name: "min_attempts", Label: "With at least attempts"}}},
	{Name: "backlog_age", Title: "A delivery waits too long", Unit: " seconds",
		Members: []alertMember{{Name: "seconds", Label: "Seconds"}}},
	{Name: "destination_state", Title: "A destination is held or disabled by the service"},
	{Name: "verification_failed", Title: "Invalid signatures at an endpoint", Unit: " requests",
		Members: []alertMember{{Name: "threshold", Label: "Requests"}}},
	{Name: "usage", Title: "The allowance is used up", Unit: percentUnit,
		Members: []alertMember{{Name: "percent", Label: "At percent of it, such as 80, 100"}}},
	{Name: "finding", Title: "A leaked key is found", Members: []alertMember{
		{Name: "min_severity", Label: "From severity", Choices: findingSeverities}}},
	{Name: "recovery", Title: "A recovery has ended"},
	{Name: "processing_missing", Title: "An event has no receipt",
		Members: []alertMember{{Name: "minutes", Label: "Minutes after its delivery"}}},
}

// Field is the name of a field of a rule's form: that of the API's parameter.
func (r *alertRule) Field(member string) string { return "rules." + r.Name + "." + member }

// ruleOf returns a rule; an empty one if it is not known.
func ruleOf(name string) alertRule {
	for _, r := range alertRules {
		if r.Name == name {
			return r
		}
	}
	return alertRule{}
}

// ruleTable returns the fields of the form of the rules.
func ruleTable() fieldTable {
	t := fieldTable{{numberField, "cooldown_seconds"}}
	for i := range alertRules {
		r := &alertRules[i]
		t = append(t, fieldTable{{checkbox, r.Field("enabled")}}...)
		for _, m := range r.Members {
			kind := numberField
			switch {
			case m.Choices != nil:
				kind = textField
			case r.Name == "usage":
				kind = numbersField
			}
			t = append(t, fieldTable{{kind, r.Field(m.Name)}}...)
		}
	}
	return t
}

// rulesPage is the data of the page of the rules.
type rulesPage struct {
	Form     *form
	Rules    []alertRule
	Warnings []wire.Warning
}

var readAlertSettings = thing[wire.AlertSettings]("/v1/alerts")

func alertRulesForm(v *visit, s *wire.AlertSettings) error {
	return v.page("alert-rules", &rulesPage{Form: editForm(ruleTable().values(s)), Rules: alertRules})
}

// saveAlertRules saves the settings of rules that were changed.
func saveAlertRules(v *visit, f *form, s *wire.AlertSettings) error {
	stored := ruleTable().values(s)
	return v.save(saving{form: f, stored: stored, body: ruleTable().changes(f, stored), call: "PATCH /v1/alerts",
		back: alertRulesPath, again: func() error {
			return v.page("alert-rules", &rulesPage{Form: f, Rules: alertRules})
		}, then: opens(v, alertRulesPath, "Saved")})
}
