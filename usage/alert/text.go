package alert

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/notify"
)

// message returns the message of a notice, as text and as data.
func (nf *notifier) message(x *alerting.Alert, n alerting.AlertNotice) notify.Message {
	where := nf.link(x)
	if isAboutFinding(n) {
		where = nf.findingLink(n)
	}
	m := notify.Message{
		ID: n.ID, Type: n.Type, At: n.At, Link: where,
		Data: notify.AlertData{
			EndpointID: orNull(x.Endpoint), DestinationID: orNull(x.Destination), Rule: x.Rule, Value: n.Value,
			Threshold: n.Threshold, DashboardURL: where, FindingID: n.Finding, TripwireID: n.Tripwire, Count: n.Count,
			EventID: n.Event,
		},
	}
	text, state := headline(x, n), "Alert"
	if strings.HasSuffix(n.Type, resolvedSuffix) {
		state = "Resolved"
	}
	fact := func(name string, value any) {
		if value != nil && value != "" {
			m.Facts = append(m.Facts, notify.Fact{Name: name, Value: fmt.Sprint(value)})
		}
	}
	name := ""
	if isAboutFinding(n) {
		name = nf.findingFacts(n, fact)
	} else {
		name = nf.facts(x, fact)
		fact("Rule", x.Rule)
		fact("Value", n.Value)
		fact("Threshold", n.Threshold)
		fact("Event", n.Event)
	}
	fact("Since", n.At.Format("2006-01-02 15:04:05 UTC"))
	if n.Merged > 0 {
		fact(factEarlier, n.Merged)
	}
	m.Title = fmt.Sprintf("[%s] %s", state, text)
	if name != "" {
		m.Title += ": " + name
	}
	m.Text = text + "."
	return m
}

// Names of facts that a digest shows too.
const (
	factDestination = "Destination"
	factEarlier     = "Earlier changes" // changes of the alert that have no notice of their own
)

// headline returns one line that says what happened.
func headline(x *alerting.Alert, n alerting.AlertNotice) string {
	if isAboutFinding(n) {
		return findingHeadline(n)
	}
	messageType, _, _ := strings.Cut(x.ID, "/")
	r, _ := ruleOfType(messageType)
	if r == recoveryEnded {
		return fmt.Sprintf("Recovery job %s: %v", x.Subject, n.Value)
	}
	return r.headline(strings.HasSuffix(n.Type, resolvedSuffix))
}

// facts adds the endpoint and the destination of an alert as facts, and returns the endpoint's name.
func (nf *notifier) facts(x *alerting.Alert, fact func(string, any)) (name string) {
	ep, presence := nf.deps.Config.Endpoint(x.Endpoint)
	if presence != entity.Present {
		fact("Endpoint", x.Endpoint)
		fact(factDestination, x.Destination)
		return x.Endpoint
	}
	fact("Endpoint", ep.Name+" ("+ep.ID+")")
	if d := ep.Destination(x.Destination); d != nil {
		text := d.ID
		if u, err := url.Parse(d.URL); err == nil { // path and query may hold a secret
			text = u.Host + " (" + d.ID + ")"
		}
		fact(factDestination, text)
	}
	return ep.Name
}

func (nf *notifier) link(x *alerting.Alert) string {
	if x.Endpoint == "" {
		return nf.cfg.BaseURL + "/app"
	}
	return nf.cfg.BaseURL + "/app/endpoints/" + x.Endpoint
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
