package model

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
)

// ChannelText describes a kind of channel in its form.
type ChannelText struct{ Title, Label, Hint, Placeholder string }

// ChannelTexts are those of all kinds.
var ChannelTexts = map[notify.Kind]ChannelText{
	notify.Email: {"Email", "Addresses, one a line", "At most 20. All of them get each alert.", "ops@example.com"},
	notify.Slack: {"Slack", "Webhook URL", "Of an incoming webhook in Slack.", "https://hooks.slack.com/services/…"},
	notify.Webhook: {"Webhook", "URL", "Gets each alert as signed JSON, as a destination gets an event.",
		"https://example.com/alerts"},
}

// Alert is an alert of the API that fires or was resolved lately.
type Alert struct {
	wire.Alert
	Endpoint    string `json:"-"` // name of the endpoint; empty if it is not known
	Destination string `json:"-"`
	Muted       bool   `json:"-"` // no alert of the endpoint fires at the moment
}

// Title is the rule in words.
func (a *Alert) Title() string { return cmp.Or(ruleOf(a.Rule).Title, a.Rule) }

// Text says what the rule has found, such as "22 failed attempts in a row".
func (a *Alert) Text() string {
	value, threshold := ui.TextOfJSON(a.Value), ui.TextOfJSON(a.Threshold)
	n, _ := strconv.ParseFloat(value, 64)
	switch {
	case value == "":
	case a.Rule == "consecutive_failures":
		return ui.Plural(int(n), "failed attempt", "failed attempts") + " in a row"
	case a.Rule == "failure_rate":
		return value + percentUnit + " of requests failed (limit " + threshold + percentUnit + ")"
	case a.Rule == "backlog_age":
		return "a delivery has waited for " + ui.DurationText(n)
	case a.Rule == "verification_failed":
		return ui.Plural(int(n), "request", "requests") + " with an invalid signature"
	case a.Rule == "usage":
		return value + percentUnit + " of the allowance are used"
	case a.Rule == "delivery_failed", a.Rule == "destination_state", a.Rule == "recovery":
		return a.Title() + ": " + strings.ReplaceAll(value, "_", " ") // the reason's code
	}
	return a.Title()
}

// percentUnit is the unit of a rule that compares shares.
const percentUnit = "\u00a0%"

// Path is the page of what the alert is about; empty if it is about the account.
func (a *Alert) Path() string {
	switch {
	case a.RecoveryID != nil:
		return ui.PageOf(*a.RecoveryID)
	case a.EndpointID == nil:
		return ""
	case a.DestinationID != nil:
		return ui.DestinationPageOf(*a.EndpointID, *a.DestinationID)
	}
	return ui.PageOf(*a.EndpointID)
}

// aboutEvents are the filters of the events that a rule is about, by rule.
var aboutEvents = map[string][]string{
	"delivery_failed":      {"status", "failed"},
	"consecutive_failures": {"status", "failed,retrying"},
	"failure_rate":         {"status", "failed,retrying"},
	"backlog_age":          {"status", "pending,retrying"},
	"destination_state":    {"status", "pending,retrying,failed"},
	"verification_failed":  {"status", "rejected"},
	"processing_missing":   {"processing", "missing"},
}

// EventsPath is the list of the events that the alert is about; empty if it is about something else.
func (a *Alert) EventsPath() string {
	filter := aboutEvents[a.Rule]
	if filter == nil || a.EndpointID == nil {
		return ""
	}
	filter = append([]string{"endpoint_id", *a.EndpointID}, filter...)
	if a.DestinationID != nil {
		filter = append(filter, "destination_id", *a.DestinationID)
	}
	return ui.WithQuery(ui.EventsPath, nil, filter...)
}

// recoverBefore is how long before an alert fired the deliveries may have failed that it is about.
const recoverBefore = time.Hour

// RecoverPath is the form that recovers what failed; empty if the alert is not about failures.
func (a *Alert) RecoverPath() string {
	failures := []string{"delivery_failed", "consecutive_failures", "failure_rate", "destination_state"}
	if !slices.Contains(failures, a.Rule) || a.EndpointID == nil {
		return ""
	}
	since := time.Time(a.FiredAt).Add(-recoverBefore).UTC().Truncate(time.Minute).Format(time.RFC3339)
	return ui.WithQuery(ui.NewRecoveryPath, nil, "endpoint_id", *a.EndpointID, "since", since)
}

// Subject names what the alert is about.
func (a *Alert) Subject() string {
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

// MutedUntil returns until when no alert of an endpoint fires; zero if it is not muted.
func MutedUntil(v *ui.Visit, endpoint string) time.Time {
	if e := ui.EndpointOf(v, endpoint); e != nil {
		if until := e.AlertsOrDefault().MutedUntil; until.After(v.Now()) {
			return until
		}
	}
	return time.Time{}
}

// NameAlerts sets the names of what the alerts are about. A destination without a name is shown by its URL, which the
// API may have to mask.
func NameAlerts(v *ui.Visit, alerts []*Alert) error {
	read := map[string]*Endpoint{}
	for _, a := range alerts {
		id, destination := ui.TextOf(a.EndpointID), ui.TextOf(a.DestinationID)
		e := ui.EndpointOf(v, id)
		if e == nil {
			continue
		}
		a.Endpoint, a.Muted = e.Name, !MutedUntil(v, id).IsZero()
		i := slices.IndexFunc(e.Destinations, func(d config.Destination) bool { return d.ID == destination })
		if i < 0 {
			continue
		}
		if a.Destination = ui.TextOf(e.Destinations[i].Name); a.Destination != "" {
			continue
		}
		if read[id] == nil {
			var err error
			if read[id], err = FindEndpoint(v, id); err != nil {
				return err
			}
		}
		if d := read[id].Destination(destination); d != nil {
			a.Destination = d.Title()
		}
	}
	return nil
}

// AlertRule describes a rule for its form.
type AlertRule struct {
	Name, Title string
	Members     []alertMember
}

// alertMember is a setting of a rule.
type alertMember struct {
	Name, Label string
	Choices     []ui.Option // nil: a number, or a list of numbers
}

// AlertRules are the rules of the API in the order in which they are shown; a test compares them with it.
var AlertRules = []AlertRule{
	{Name: "delivery_failed", Title: "A delivery failed for good"},
	{Name: "consecutive_failures", Title: "Failed attempts in a row at a destination",
		Members: []alertMember{{Name: "threshold", Label: "Attempts"}}},
	{Name: "failure_rate", Title: "Failure rate of a destination", Members: []alertMember{
		{Name: "percent", Label: "Percent"}, {Name: "window_seconds", Label: "Within"},
		{Name: "min_attempts", Label: "With at least attempts"}}},
	{Name: "backlog_age", Title: "A delivery waits too long",
		Members: []alertMember{{Name: "seconds", Label: "Longer than"}}},
	{Name: "destination_state", Title: "A destination is held or disabled by the service"},
	{Name: "verification_failed", Title: "Invalid signatures at an endpoint",
		Members: []alertMember{{Name: "threshold", Label: "Requests"}}},
	{Name: "usage", Title: "The allowance is used up",
		Members: []alertMember{{Name: "percent", Label: "At percent of it, such as 80, 100"}}},
	{Name: "finding", Title: "A leaked key is found", Members: []alertMember{
		{Name: "min_severity", Label: "From severity", Choices: findingSeverities}}},
	{Name: "recovery", Title: "A recovery has ended"},
	{Name: "processing_missing", Title: "An event has no receipt",
		Members: []alertMember{{Name: "minutes", Label: "Minutes after its delivery"}}},
	{Name: "source_failing", Title: "A source cannot be read, or a provider asked",
		Members: []alertMember{{Name: "seconds", Label: "Longer than"}}},
}

// Field is the name of a field of a rule's form: that of the API's parameter.
func (r *AlertRule) Field(member string) string { return "rules." + r.Name + "." + member }

// ruleOf returns a rule; an empty one if it is not known.
func ruleOf(name string) AlertRule {
	for _, r := range AlertRules {
		if r.Name == name {
			return r
		}
	}
	return AlertRule{}
}

// findingSeverities are the choices of a least severity.
var findingSeverities = ui.NewOptions("critical=Critical", "high=High", "medium=Medium", "low=Low")

// Rejecting is an endpoint that has rejected most of the requests of the last hour.
type Rejecting struct {
	EndpointID string
	Text       string // such as "6 of 6 requests of the last hour were rejected"
}

// maxRejecting is how many endpoints RejectingEndpoints finds: each costs a read.
const maxRejecting = 5

// RejectingEndpoints finds endpoints that reject most of their requests, among the newest rejected events of the last
// hour. It finds none while the store does not answer within a second, and asks at most once in ten seconds.
func RejectingEndpoints(v *ui.Visit) ([]Rejecting, error) {
	return ui.Remember(v, "rejecting", 10*time.Second, func() ([]Rejecting, error) { return findRejecting(v) })
}

func findRejecting(v *ui.Visit) (all []Rejecting, err error) {
	var list wire.List[*EventRow]
	err = v.GetSoon("/v1/events", url.Values{"status": {"rejected"}, "since": {"1h"}, "limit": {"100"}}, &list)
	if err != nil {
		if ui.StatusOf(err) != 0 {
			err = nil
		}
		return nil, err
	}
	var seen []string
	for _, e := range list.Data {
		if slices.Contains(seen, e.EndpointID) || len(seen) == maxRejecting {
			continue
		}
		seen = append(seen, e.EndpointID)
		x, err := RejectingAt(v, e.EndpointID)
		if err != nil {
			return nil, err
		}
		if x != nil {
			all = append(all, *x)
		}
	}
	return all, nil
}

// RejectingAt looks at one endpoint; nil if it accepts most of its requests.
func RejectingAt(v *ui.Visit, endpoint string) (*Rejecting, error) {
	n, err := CountEvents(v, url.Values{"endpoint_id": {endpoint}, "source": {"provider"}, "since": {"1h"}})
	if n == nil || n.Statuses.Rejected == 0 || 2*n.Statuses.Rejected < n.Counted {
		return nil, err
	}
	of := "of the last hour"
	if n.More {
		of = "of the newest"
	}
	return &Rejecting{endpoint, fmt.Sprintf("%s of %s %s were rejected", ui.Number(int64(n.Statuses.Rejected)),
		ui.Plural(n.Counted, "request", "requests"), of)}, nil
}

// Need says it as a cause.
func (x *Rejecting) Need(subject string) Need {
	return Need{Class: "failed", Icon: "failed", Subject: subject, Path: ui.PageOf(x.EndpointID),
		Text: x.Text + ": their signatures are not accepted.", Links: []ui.MenuItem{{Name: "Show events",
			Path: ui.WithQuery(ui.EventsPath, nil, "endpoint_id", x.EndpointID, "status", "rejected")}}}
}

// SaysRejecting reports whether an alert that fires says the same of the endpoint.
func SaysRejecting(alerts []*Alert, endpoint string) bool {
	return slices.ContainsFunc(alerts, func(a *Alert) bool {
		return a.Rule == "verification_failed" && ui.TextOf(a.EndpointID) == endpoint
	})
}
