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
	for _, x := range []struct {
		name  string
		reset func()
		read  func(*object)
	}{
		{"delivery_failed", func() { r.DeliveryFailed = defaults.DeliveryFailed }, func(o *object) {
			o.boolean("enabled", &r.DeliveryFailed.Enabled)
		}},
		{"consecutive_failures", func() { r.ConsecutiveFailures = defaults.ConsecutiveFailures }, func(o *object) {
			threshold(o, &r.ConsecutiveFailures)
		}},
		{"failure_rate", func() { r.FailureRate = defaults.FailureRate }, func(o *object) {
			o.boolean("enabled", &r.FailureRate.Enabled)
			o.integer("percent", 1, 100, &r.FailureRate.Percent)
			o.integer("window_seconds", minAlertWindow, maxAlertWindow, &r.FailureRate.WindowSeconds)
			o.integer("min_attempts", 1, maxAlertAttempts, &r.FailureRate.MinAttempts)
		}},
		{"backlog_age", func() { r.BacklogAge = defaults.BacklogAge }, func(o *object) {
			o.boolean("enabled", &r.BacklogAge.Enabled)
			o.integer("seconds", minAlertAge, maxAlertAge, &r.BacklogAge.Seconds)
		}},
		{"destination_state", func() { r.DestinationState = defaults.DestinationState }, func(o *object) {
			o.boolean("enabled", &r.DestinationState.Enabled)
		}},
		{"verification_failed", func() { r.VerificationFailed = defaults.VerificationFailed }, func(o *object) {
			threshold(o, &r.VerificationFailed)
		}},
		{"usage", func() { r.Usage = defaults.Usage }, func(o *object) {
			o.boolean("enabled", &r.Usage.Enabled)
			usagePercents(o, &r.Usage.Percent)
		}},
		{"finding", func() { r.Finding = defaults.Finding }, func(o *object) {
			o.boolean("enabled", &r.Finding.Enabled)
			o.enum("min_severity", &r.Finding.MinSeverity, severities...)
		}},
		{"recovery", func() { r.Recovery = defaults.Recovery }, func(o *object) {
			o.boolean("enabled", &r.Recovery.Enabled)
		}},
		{"processing_missing", func() { r.ProcessingMissing = defaults.ProcessingMissing }, func(o *object) {
			o.boolean("enabled", &r.ProcessingMissing.Enabled)
			o.integer("minutes", 1, maxAlertMinutes, &r.ProcessingMissing.Minutes)
		}},
	} {
		if rules.isNull(x.name) {
			x.reset()
		} else if rule := rules.object(x.name); rule != nil {
			x.read(rule)
			rule.warnUnknown()
		}
	}
	rules.warnUnknown()
}

func threshold(o *object, r *config.AlertThresholdRule) {
	o.boolean("enabled", &r.Enabled)
	o.integer("threshold", 1, maxAlertThreshold, &r.Threshold)
}

// usagePercents reads percentages of the allowance, in any order, each once.
func usagePercents(o *object, dst *[]int) {
	const name = "percent"
	if _, ok := o.raw(name); !ok {
		return
	}
	elements := o.array(name, maxUsagePercents)
	if len(elements) == 0 {
		o.fail(name, "must be an array of 1 to %d integers", maxUsagePercents)
		return
	}
	percents := make([]int, len(elements))
	for i, raw := range elements {
		n, ok := integerOf(raw, 1, maxUsagePercent)
		if !ok || slices.Contains(percents[:i], n) {
			o.fail(indexed(name, i), "must be an integer from 1 to %d, each once", maxUsagePercent)
			return
		}
		percents[i] = n
	}
	slices.Sort(percents)
	*dst = percents
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
