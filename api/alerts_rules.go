package api

import (
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
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

// alerts reads the settings in which the endpoint differs from its account; null removes all of them.
func (in *endpointInput) alerts(o *object, e *config.Endpoint) {
	const name = "alerts"
	if o.isNull(name) {
		e.Alerts = nil
	}
	x := o.object(name)
	if x == nil {
		return
	}
	next := e.AlertsOrDefault()
	x.boolean("enabled", &next.Enabled)
	in.alertChannels(x, &next)
	x.integerOrNull("consecutive_failures", 1, maxAlertThreshold, &next.ConsecutiveFailures)
	x.integerOrNull("failure_rate_percent", 1, 100, &next.FailureRatePercent)
	if x.isNull("muted_until") {
		next.MutedUntil = time.Time{}
	} else if raw, ok := x.rawOfKind("muted_until", kindString); ok {
		text, err := web.DecodeString(raw)
		t, good := parseTime(text)
		if err != nil || !good {
			x.fail("muted_until", "must be a time such as 2026-08-21T22:24:36Z, or null")
		}
		next.MutedUntil = t
	}
	x.warnUnknown()
	if e.Alerts = &next; next.Enabled && next.Channels == nil && next.ConsecutiveFailures == nil &&
		next.FailureRatePercent == nil && next.MutedUntil.IsZero() {
		e.Alerts = nil
	}
}

// alertChannels reads the names of channels; null means all channels, an empty list none.
func (in *endpointInput) alertChannels(o *object, next *config.EndpointAlerts) {
	const name = "channels"
	if o.isNull(name) {
		next.Channels = nil
		return
	}
	if _, ok := o.raw(name); !ok {
		return
	}
	all, before := notify.KindNames(), next.Channels
	elements := o.array(name, len(all))
	next.Channels = make([]string, 0, len(elements))
	for i, raw := range elements {
		var text string
		if kindOf(raw) == kindString {
			text, _ = web.DecodeString(raw)
		}
		if !slices.Contains(all, text) || slices.Contains(next.Channels, text) {
			o.fail(indexed(name, i), "must be one of %s, each once", strings.Join(all, ", "))
			return
		}
		next.Channels = append(next.Channels, text)
		if c := in.endpoints.alertSettings().Channel(text); (c == nil || !c.Enabled) && !slices.Contains(before, text) {
			in.warn(o.param(indexed(name, i)), "gets no alert of this endpoint until "+text+
				" is set up and enabled in the account's alert settings (PATCH /v1/alerts)")
		}
	}
}
