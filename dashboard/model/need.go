package model

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/web"
)

// Need is one thing that needs a person, shown by the template "need".
type Need struct {
	Class, Icon   string
	Subject, Text string // the sentence begins with the subject
	Path          string // page of the subject; empty: none
	Detail        string
	Since, Until  web.Time      // may be zero
	Ends          string        // what happens at Until
	Links         []ui.MenuItem // buttons
	// Try is where a test event is sent from, to the destination alone; empty: no destination is to be tried.
	Try, DestinationID string
	// Newest is the newest event that it is about, and NewestText what is wrong with that; may be empty.
	Newest, NewestText string

	facts []string
	state bool // a fact is the state of the destination
	issue bool // a fact is an issue of it
}

// Causes are what is wrong, by destination: its state, and each alert that fires for it. An alert that is about no
// destination is a cause of its own.
type Causes struct {
	v        *ui.Visit
	requests map[string]wire.DestinationRequests // of the last hour, by destination
	all      []*Need
}

// NewCauses returns causes that a visitor sees, none yet.
func NewCauses(v *ui.Visit) *Causes {
	return &Causes{v: v, requests: map[string]wire.DestinationRequests{}}
}

// AddRequests adds the requests of the last hour to destinations.
func (x *Causes) AddRequests(to []wire.DestinationRequests) {
	for _, d := range to {
		x.requests[d.DestinationID] = d
	}
}

// at returns the cause of a destination, and a new one for what is about none.
func (x *Causes) at(destination, subject string) *Need {
	i := slices.IndexFunc(x.all, func(c *Need) bool { return destination != "" && c.DestinationID == destination })
	if i < 0 {
		i = len(x.all)
		x.all = append(x.all, &Need{Class: "failed", Icon: "failed", Subject: subject, DestinationID: destination})
	}
	return x.all[i]
}

// NameOfWaiting is the endpoint and the destination.
func NameOfWaiting(d *wire.WaitingDestination) string {
	return d.EndpointName + " → " + cmp.Or(ui.TextOf(d.DestinationName), d.Host)
}

// AddWaiting says why the deliveries of a destination wait.
func (x *Causes) AddWaiting(subject string, d *wire.WaitingDestination) {
	c := x.at(d.DestinationID, subject)
	c.state = true
	c.Path = ui.DestinationPageOf(d.EndpointID, d.DestinationID)
	switch {
	case d.State == "held":
		c.Class, c.Icon, c.Until, c.Ends = "held", "held", d.Until, "next try"
		c.facts = append(c.facts, "held after repeated failures")
		if x.v.CanWrite() {
			c.Try = ui.PageOf(d.EndpointID) + "/test"
		}
	case ui.TextOf(d.StateReason) == "gone_410":
		c.facts = append(c.facts, "disabled: it answered 410 Gone to three events in a row; deliveries wait for a day")
	case ui.TextOf(d.StateReason) == "receiver_disabled":
		c.facts = append(c.facts, "disabled: its application asked for it")
	default:
		c.facts = append(c.facts, "disabled ("+ui.TextOf(d.StateReason)+")")
	}
}

// AddAlert adds what an alert says to its destination, and returns the need.
func (x *Causes) AddAlert(a *Alert, subject string) *Need {
	c := x.at(ui.TextOf(a.DestinationID), strings.Replace(subject, ", ", " → ", 1))
	c.Path = cmp.Or(c.Path, a.Path(), ui.AlertHistoryPath)
	if c.Since.IsZero() || time.Time(a.FiredAt).Before(time.Time(c.Since)) {
		c.Since = a.FiredAt
	}
	stateIsKnown := a.Rule == "destination_state" && c.state
	rateIsKnown := a.Rule == "failure_rate" && x.requests[c.DestinationID].Failed > 0
	issueIsKnown := c.issue && slices.Contains(saidByIssues, a.Rule)
	if text := a.Text(); !stateIsKnown && !rateIsKnown && !issueIsKnown {
		c.facts = append(c.facts, strings.ToLower(text[:1])+text[1:])
	}
	if x.v.CanWrite() {
		c.link(a.RecoverPath(), "Recover these")
	}
	c.link(a.EventsPath(), "Show events")
	return c
}

// NameOfIssue is the endpoint and the destination.
func NameOfIssue(v *ui.Visit, x *wire.Issue) string {
	destination := ui.TextOf(x.DestinationName)
	if e := ui.EndpointOf(v, x.EndpointID); e != nil && destination == "" {
		if d := e.Destination(x.DestinationID); d != nil {
			destination = ui.NameOfDestination(d)
		}
	}
	return cmp.Or(ui.TextOf(x.EndpointName), x.EndpointID) + " → " + cmp.Or(destination, x.DestinationID)
}

// CauseText is the cause of an issue in words.
func CauseText(cause string) string {
	if status, isStatus := strings.CutPrefix(cause, "http_"); isStatus && len(status) == 3 {
		return "answers " + status
	}
	if cause == "other" {
		return "fails in many other ways"
	}
	return strings.ReplaceAll(cause, "_", " ")
}

// AddIssue says how often a destination has failed for a cause. Alerts about its failures say no more than that.
func (x *Causes) AddIssue(i *wire.Issue) {
	c := x.at(i.DestinationID, NameOfIssue(x.v, i))
	c.Path = cmp.Or(c.Path, ui.DestinationPageOf(i.EndpointID, i.DestinationID))
	if c.Since.IsZero() || time.Time(i.FirstSeenAt).Before(time.Time(c.Since)) {
		c.Since = i.FirstSeenAt
	}
	c.issue = true
	said := CauseText(i.Cause) + ", " + ui.Plural(i.Count, "time", "times")
	if !i.WorksAgainAt.IsZero() {
		said = WorksAgainText(i)
	}
	c.facts = append(c.facts, said)
	if x.v.CanWrite() && ui.Count(i.FailedEvents) > 0 {
		c.link(RecoverIssuePath(i), "Recover these")
	}
	c.link(ui.PageOf(i.ID), "Open the issue")
}

// WorksAgainText says that the destination works again, and what is still to be done.
func WorksAgainText(i *wire.Issue) string {
	switch n := i.FailedEvents; {
	case n == nil:
		return "works again"
	case *n == 0:
		return "works again; no event has failed for good"
	default:
		return "works again; " + ui.Plural(*n, "event that failed waits", "events that failed wait") + " for recovery"
	}
}

// RecoverIssuePath is the form that recovers what failed at the destination of an issue.
func RecoverIssuePath(i *wire.Issue) string {
	since := time.Time(i.OldestEventAt).UTC().Truncate(time.Minute).Format(time.RFC3339)
	return ui.WithQuery(ui.NewRecoveryPath, nil, "endpoint_id", i.EndpointID, "destination_id", i.DestinationID,
		"since", since)
}

// saidByIssues are the rules of alerts that an issue of their destination replaces.
var saidByIssues = []string{"delivery_failed", "consecutive_failures", "failure_rate"}

// link adds a link, unless the cause has one of that name; an empty path is none. Links are in the order of names.
func (c *Need) link(path, name string) {
	if path != "" && !slices.ContainsFunc(c.Links, func(x ui.MenuItem) bool { return x.Name == name }) {
		c.Links = append(c.Links, ui.MenuItem{Path: path, Name: name})
		slices.SortFunc(c.Links, func(a, b ui.MenuItem) int { return strings.Compare(a.Name, b.Name) })
	}
}

// Diagnose adds why the signature of the newest rejected event of an endpoint is not accepted, and what to change;
// nothing if there is none, or if it cannot be read.
func (c *Need) Diagnose(v *ui.Visit, endpoint string) error {
	rejected, err := ui.ReadRows[*EventRow](v, "/v1/events",
		url.Values{"endpoint_id": {endpoint}, "status": {"rejected"}, "limit": {"1"}})
	if err != nil || len(rejected.Data) == 0 {
		return err
	}
	explained := &wire.SignatureExplanation{}
	_, err = v.TryGet(ui.APIOf(rejected.Data[0].ID)+"/signature", nil, explained)
	if s := ui.StatusOf(err); s == http.StatusBadRequest || s == http.StatusNotFound { // erased, or expired meanwhile
		return nil
	}
	if err == nil && len(explained.Findings) > 0 {
		c.Newest, c.NewestText = rejected.Data[0].ID, explained.Findings[0].Message
	}
	return err
}

// Needs are the causes as sentences, with the requests of the last hour where those are known.
func (x *Causes) Needs() (needs []Need) {
	for _, c := range x.all {
		if n := x.requests[c.DestinationID]; n.Failed > 0 {
			c.facts = append(c.facts, fmt.Sprintf("%s of %s delivered in the last hour",
				ui.Percent(n.Delivered, n.Requests), ui.Plural(int(n.Requests), "request", "requests")))
		}
		c.Text = strings.Join(c.facts, "; ") + "."
		needs = append(needs, *c)
	}
	return needs
}
