package account

import (
	"net/http"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Values of alertView.State.
const (
	alertFiring   = "firing"
	alertResolved = "resolved"
)

// alertRules are the rules that have alerts of their own.
var alertRules = config.AlertRuleNames()

func newAlertView(x *config.Alert) *wire.Alert {
	messageType, _, _ := strings.Cut(x.ID, "/")
	v := &wire.Alert{
		ID: id.AlertOf(x.ID), Object: "alert", Type: "alert." + messageType, Rule: x.Rule,
		EndpointID:    frame.OrNull(x.Endpoint),
		DestinationID: frame.OrNull(x.Destination), State: alertResolved, Value: x.Value, Threshold: x.Threshold,
		FiredAt: web.Time(x.FiredAt), ResolvedAt: web.Time(x.Since),
	}
	if strings.HasPrefix(x.Subject, id.Recovery) {
		v.RecoveryID = &x.Subject
	}
	if x.Firing {
		v.State, v.ResolvedAt = alertFiring, web.Time{}
	}
	return v
}

// listAlerts lists the alerts that fire and those that were resolved in the last 25 hours, in the order in which they
// fired for the first time.
func (a *alerts) listAlerts(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "alerts "+key.Account)
	states := frame.EnumFilter(q, "state", alertFiring, alertResolved)
	rules := frame.EnumFilter(q, "rule", alertRules...)
	endpoints := q.List("endpoint_id", "endpoint")
	p, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	has := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	alerts, more := a.config.AlertPage(key.Account, p.Before, p.Limit, func(x *config.Alert) bool {
		state := alertResolved
		if x.Firing {
			state = alertFiring
		}
		return slices.Contains(alertRules, x.Rule) && has(rules, x.Rule) && has(states, state) && has(endpoints, x.Endpoint)
	})
	return frame.WriteConfigPage(w, p, alerts, more, frame.ViewsOf(alerts, newAlertView))
}
