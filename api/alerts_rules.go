package api

import (
	"reflect"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
)

// rules merges the alert rules one by one; null resets one rule, or all of them, to the defaults.
func (in *alertsInput) rules(o *object, r *config.AlertRules) {
	defaults := config.DefaultAlertRules()
	if o.isNull("rules") {
		*r = defaults
	}
	rules := o.object("rules")
	if rules == nil {
		return
	}
	rules.decode(r, defaults)
	if usage := rules.object("usage"); usage != nil {
		percents := slices.Clone(r.Usage.Percent)
		for i, n := range percents {
			if slices.Contains(percents[:i], n) {
				usage.fail(indexed("percent", i), "is there twice")
			}
		}
		slices.Sort(percents)
		r.Usage.Percent = percents
	}
	rules.warnUnknown()
}

// alerts reads the settings in which the endpoint differs from its account; null removes all of them. It warns of
// channels that it adds and that get nothing.
func (in *endpointInput) alerts(o *object, e *config.Endpoint) {
	if o.isNull("alerts") {
		e.Alerts = nil
	}
	o = o.object("alerts")
	if o == nil {
		return
	}
	before := e.AlertsOrDefault()
	x := endpointAlerts(before)
	o.decode(&x)
	for i, name := range x.Channels {
		c := in.endpoints.alertSettings().Channel(name)
		if (c == nil || !c.Enabled) && !slices.Contains(before.Channels, name) {
			in.warn(indexed("alerts.channels", i), "gets no alert of this endpoint until "+name+
				" is set up and enabled in the account's alert settings (PATCH /v1/alerts)")
		}
	}
	o.warnUnknown()
	e.Alerts = &config.EndpointAlerts{Enabled: x.Enabled, Channels: x.Channels, MutedUntil: time.Time(x.MutedUntil),
		ConsecutiveFailures: x.ConsecutiveFailures, FailureRatePercent: x.FailureRatePercent}
	if reflect.DeepEqual(e.Alerts, &config.EndpointAlerts{Enabled: true}) {
		e.Alerts = nil
	}
}
