package alert

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
)

// accountEvery is how often the rules of the whole account are evaluated, and how long each read for it may take.
const accountEvery = 5 * time.Second

// runAccountRules evaluates the rules of the whole account until ctx ends, on the node that owns partition 0. It has
// a goroutine of its own, so that a store that hangs does not delay the consumer.
func (a *Alerts) runAccountRules(ctx context.Context) error {
	tick := time.NewTicker(accountEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !a.ownsFirst.Load() {
			continue
		}
		if err := a.evaluateAccount(ctx); err != nil {
			return err
		}
	}
}

// evaluateAccount evaluates recovery jobs, usage, processing and sources, and deletes resolved alerts without open
// notices that have not changed for 25 hours.
func (a *Alerts) evaluateAccount(ctx context.Context) error {
	now := a.now()
	for _, job := range a.deps.Config.EndedRecoveries(now.Add(-maxOutcomeAge)) {
		if err := a.announceRecovery(ctx, job); err != nil {
			return err
		}
	}
	if err := a.evaluateUsage(ctx); err != nil {
		return err
	}
	if err := a.evaluateProcessing(ctx); err != nil {
		return err
	}
	if err := a.evaluateSources(ctx); err != nil {
		return err
	}
	// Longer than any cooldown (24 hours), and longer than ended recovery jobs are looked for.
	const quiet = maxOutcomeAge + time.Hour
	for _, x := range a.deps.Config.Alerts(func(x *alerting.Alert) bool {
		return !x.Firing && len(x.Notices) == 0 && now.Sub(x.UpdatedAt) > quiet
	}) {
		if err := a.deps.Config.ForgetAlert(ctx, x.ID); err != nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "cannot delete an old alert", slog.Any("error", err))
			return ctx.Err()
		}
	}
	return nil
}

// announceRecovery announces once how a recovery job ended. The alert is stored as resolved at once, because nothing
// would resolve it later.
func (a *Alerts) announceRecovery(ctx context.Context, job *jobs.Recovery) error {
	about := subject{endpoint: job.Endpoint, destination: job.Destination, other: job.ID}
	name := alertID(recoveryEnded, about)
	if a.deps.Config.Alert(name) != nil {
		return nil
	}
	overrides := alerting.EndpointAlerts{Enabled: true}
	if ep, presence := a.deps.Config.Endpoint(job.Endpoint); presence == entity.Present {
		overrides = ep.AlertsOrDefault()
	}
	s, now := a.deps.Config.AlertSettings(), a.now()
	f := evaluation{rule: recoveryEnded, result: bad, value: string(job.State)}
	_, announce := nextTransition(nil, f, s, overrides, logPosition{}, now)
	changed, err := a.deps.Config.ChangeAlert(ctx, name, func(x *alerting.Alert) error {
		if !x.FiredAt.IsZero() {
			return alerting.ErrAlertUnchanged
		}
		writeTransition(x, about, f, resolve, logPosition{}, now)
		x.Value, x.FiredAt = f.value, now
		if announce {
			a.addNotice(x, f, fire, targets(s, overrides), now)
		}
		return nil
	})
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot write the alert about a recovery job", slog.Any("error", err))
		return ctx.Err() // the next evaluation tries again
	}
	if changed != nil {
		a.reportTransition(changed, f, fire, announce)
	}
	return nil
}

// evaluateUsage compares the used share of the allowance with the thresholds of the settings.
func (a *Alerts) evaluateUsage(ctx context.Context) error {
	s := a.deps.Config.AlertSettings()
	share, known, limited := a.usedPercent(ctx)
	// The operator may have removed the allowance while an alert fires: it resolves without a notice.
	overrides := alerting.EndpointAlerts{Enabled: limited}
	for _, percent := range s.Rules.Usage.Percent {
		f := evaluation{rule: usageShare, value: share, threshold: percent}
		switch {
		case known && share >= percent:
			f.result = bad
		case known:
			f.result = good
		}
		if err := a.applyEvaluation(ctx, subject{other: strconv.Itoa(percent)}, f, overrides, logPosition{}); err != nil {
			return err
		}
	}
	// Resolve the alerts of thresholds that were removed from the settings.
	orphaned := a.deps.Config.Alerts(func(x *alerting.Alert) bool {
		percent, _ := strconv.Atoi(x.Subject)
		return x.Firing && x.Rule == usageShare.settingName() && !slices.Contains(s.Rules.Usage.Percent, percent)
	})
	for _, x := range orphaned {
		if err := a.applyEvaluation(ctx, subject{other: x.Subject}, evaluation{rule: usageShare}, alerting.EndpointAlerts{},
			logPosition{}); err != nil {
			return err
		}
	}
	return nil
}

// usedPercent returns how many percent of the allowance are used; known is false if the store does not answer, limited
// if there is no allowance.
func (a *Alerts) usedPercent(ctx context.Context) (percent int, known, limited bool) {
	if a.deps.Usage == nil {
		return 0, false, false
	}
	reading, cancel := context.WithTimeout(ctx, accountEvery)
	defer cancel()
	used, allowance, err := a.deps.Usage.Used(reading)
	switch {
	case err != nil:
		return 0, false, true // unavailable: usage is unknown, so nothing changes
	case allowance <= 0:
		return 0, false, false
	}
	return int(100 * used / allowance), true, true
}

// processingEvery is how often the store is asked for unprocessed events, processingSpan how far back.
const (
	processingEvery = time.Minute
	processingSpan  = 24 * time.Hour
	processingLimit = 100 // events of one query
)

// evaluateProcessing looks for events that were delivered before the rule's number of minutes and that the receiver has
// not reported as processed.
func (a *Alerts) evaluateProcessing(ctx context.Context) error {
	rule, now := a.deps.Config.AlertSettings().Rules.ProcessingMissing, a.now()
	if a.deps.Events == nil || now.Sub(a.processingCheckedAt) < processingEvery && !now.Before(a.processingCheckedAt) {
		return nil
	}
	a.processingCheckedAt = now
	missing, complete := map[string]int{}, true
	until := now.Add(-time.Duration(rule.Minutes) * time.Minute)
	if rule.Enabled {
		limited, cancel := context.WithTimeout(ctx, accountEvery)
		page, err := a.deps.Events.Events(limited, event.Query{
			Account: a.deps.Config.AlertSettings().Account, Processing: []event.Processing{event.ProcessingMissing},
			Since: until.Add(-processingSpan), Until: until, Limit: processingLimit,
		})
		cancel()
		if err != nil {
			return ctx.Err() // unavailable: nothing is known, so nothing changes
		}
		for _, row := range page.Rows {
			if row.LastAttemptAt.Before(until) {
				missing[row.Endpoint]++
			}
		}
		complete = !page.More
	}
	evaluate := func(endpoint string, v ruleResult, n int) error {
		return a.evaluateEndpoint(ctx, endpoint,
			evaluation{rule: processingMissing, result: v, value: n, threshold: rule.Minutes})
	}
	for endpoint, n := range missing {
		if err := evaluate(endpoint, bad, n); err != nil {
			return err
		}
	}
	if !complete {
		return nil
	}
	firing := a.deps.Config.Alerts(func(x *alerting.Alert) bool {
		return x.Firing && x.Rule == processingMissing.settingName() && missing[x.Endpoint] == 0
	})
	for _, x := range firing {
		if err := evaluate(x.Endpoint, good, 0); err != nil {
			return err
		}
	}
	return nil
}

// sourcesEvery is how often the sources are looked at.
const sourcesEvery = 15 * time.Second

// evaluateSources evaluates the endpoints that fetch their events. One of which no node says anything keeps its alert.
func (a *Alerts) evaluateSources(ctx context.Context) error {
	now := a.now()
	if a.deps.Sources == nil || now.Sub(a.sourcesCheckedAt) < sourcesEvery && !now.Before(a.sourcesCheckedAt) {
		return nil
	}
	a.sourcesCheckedAt = now
	limited, cancel := context.WithTimeout(ctx, accountEvery)
	known, fetching := a.deps.Sources(limited)
	cancel()
	rule := a.deps.Config.AlertSettings().Rules.SourceFailing
	maps.DeleteFunc(a.failingSince, func(endpoint string, since time.Time) bool {
		return !fetching[endpoint] || since.After(now)
	})
	for _, s := range known {
		f := evaluation{rule: sourceFailing, result: good, threshold: rule.Seconds}
		if s.Error == "" {
			delete(a.failingSince, s.Endpoint)
		} else {
			since, before := a.failingSince[s.Endpoint]
			if !before {
				since = now
				a.failingSince[s.Endpoint] = since
			}
			if f.result, f.value = inconclusive, s.Error; now.Sub(since) >= time.Duration(rule.Seconds)*time.Second {
				f.result = bad
			}
		}
		if err := a.evaluateEndpoint(ctx, s.Endpoint, f); err != nil {
			return err
		}
	}
	for _, x := range a.deps.Config.Alerts(func(x *alerting.Alert) bool {
		return x.Firing && x.Rule == sourceFailing.settingName() && !fetching[x.Endpoint]
	}) {
		if err := a.evaluateEndpoint(ctx, x.Endpoint, evaluation{rule: sourceFailing, result: good}); err != nil {
			return err
		}
	}
	return nil
}

// evaluateEndpoint applies the result of a rule to an endpoint. A deleted one has no alerts.
func (a *Alerts) evaluateEndpoint(ctx context.Context, endpoint string, f evaluation) error {
	overrides := alerting.EndpointAlerts{}
	if ep, presence := a.deps.Config.Endpoint(endpoint); presence == entity.Present {
		overrides = ep.AlertsOrDefault()
	}
	return a.applyEvaluation(ctx, subject{endpoint: endpoint}, f, overrides, logPosition{})
}
