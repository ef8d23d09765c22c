package alert

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// accountEvery is how often what is no partition's is judged.
const accountEvery = 5 * time.Second

// account judges what is no partition's, on the node that has the first one, until ctx ends. It does so beside what
// follows the log: a store that hangs holds up neither.
func (a *Alerts) account(ctx context.Context) error {
	tick := time.NewTicker(accountEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !a.first.Load() {
			continue
		}
		if err := a.judgeAccount(ctx); err != nil {
			return err
		}
	}
}

// judgeAccount judges recovery jobs, usage and processing, and forgets alerts that have been quiet for long.
func (a *Alerts) judgeAccount(ctx context.Context) error {
	now := a.now()
	for _, job := range a.deps.History.EndedRecoveries(now.Add(-tooOld)) {
		if err := a.recovery(ctx, job); err != nil {
			return err
		}
	}
	if err := a.usage(ctx); err != nil {
		return err
	}
	if err := a.processing(ctx); err != nil {
		return err
	}
	const quiet = tooOld + time.Hour // longer than any cooldown, and than a job is looked at
	for _, x := range a.deps.Config.Alerts(func(x *config.Alert) bool {
		return !x.Firing && len(x.Notices) == 0 && now.Sub(x.UpdatedAt) > quiet
	}) {
		if err := a.deps.History.ForgetAlert(ctx, x.ID); err != nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "forget an alert", slog.Any("error", err))
			return ctx.Err()
		}
	}
	return nil
}

// recovery tells once how a job ended. It has no end of its own: the alert fires and is over at once.
func (a *Alerts) recovery(ctx context.Context, job *config.Recovery) error {
	about := subject{endpoint: job.Endpoint, destination: job.Destination, other: job.ID}
	name := idOf(recoveryEnded, about)
	if a.deps.Config.Alert(name) != nil {
		return nil
	}
	own := config.EndpointAlerts{Enabled: true}
	if ep, presence := a.deps.Config.Endpoint(job.Endpoint); presence == config.Present {
		own = ep.AlertsOrDefault()
	}
	s, now := a.deps.Config.AlertSettings(), a.now()
	f := finding{recoveryEnded, bad, string(job.State), nil}
	_, told := next(nil, f, s, own, place{}, now)
	changed, err := a.deps.Config.ChangeAlert(ctx, name, func(x *config.Alert) error {
		if !x.FiredAt.IsZero() {
			return config.ErrAlertUnchanged
		}
		a.apply(x, about, f, resolve, false, nil, place{}, now)
		if x.FiredAt = now; told {
			if to := targets(s, own); len(to) > 0 {
				x.Notices = append(x.Notices, a.notice("alert.recovery."+string(job.State), f, to, now))
			}
		}
		return nil
	})
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "write that a recovery job is told of", slog.Any("error", err))
		return ctx.Err() // it is still there the next time
	}
	if changed != nil {
		a.changed(changed, f, fire, told)
	}
	return nil
}

// usage holds the share of the allowance that is used to the marks that the settings name.
func (a *Alerts) usage(ctx context.Context) error {
	s := a.deps.Config.AlertSettings()
	share, known := a.share(ctx)
	own := config.EndpointAlerts{Enabled: true}
	for _, percent := range s.Rules.Usage.Percent {
		f := finding{rule: usageShare, value: share, threshold: percent}
		switch {
		case known && share >= percent:
			f.result = bad
		case known:
			f.result = good
		}
		if err := a.consider(ctx, subject{other: strconv.Itoa(percent)}, f, own, place{}); err != nil {
			return err
		}
	}
	// A mark that the settings no longer name is nobody's business any more.
	left := a.deps.Config.Alerts(func(x *config.Alert) bool {
		percent, _ := strconv.Atoi(x.Subject)
		return x.Firing && x.Rule == usageShare.setting() && !slices.Contains(s.Rules.Usage.Percent, percent)
	})
	for _, x := range left {
		if err := a.consider(ctx, subject{other: x.Subject}, finding{rule: usageShare}, config.EndpointAlerts{},
			place{}); err != nil {
			return err
		}
	}
	return nil
}

// share is how many percent of the allowance are used.
func (a *Alerts) share(ctx context.Context) (percent int, known bool) {
	if a.deps.Usage == nil {
		return 0, false
	}
	limited, cancel := context.WithTimeout(ctx, accountEvery)
	defer cancel()
	used, allowance, err := a.deps.Usage.Used(limited)
	if err != nil || allowance <= 0 {
		return 0, false // the store is away: nothing is known, and nothing is told
	}
	return int(100 * used / allowance), true
}

// processingEvery is how often it is asked which events nobody processed, and processingSpan how far back.
const (
	processingEvery = time.Minute
	processingSpan  = 24 * time.Hour
	processingLimit = 100 // events of one look
)

// processing looks for events that were delivered a while ago and of which nobody said that they were processed.
func (a *Alerts) processing(ctx context.Context) error {
	rule, now := a.deps.Config.AlertSettings().Rules.ProcessingMissing, a.now()
	if a.deps.Events == nil || now.Sub(a.asked) < processingEvery && !now.Before(a.asked) {
		return nil
	}
	a.asked = now
	missing, whole := map[string]int{}, true
	until := now.Add(-time.Duration(rule.Minutes) * time.Minute)
	if rule.Enabled {
		limited, cancel := context.WithTimeout(ctx, accountEvery)
		page, err := a.deps.Events.Events(limited, event.Query{
			Account: a.deps.Config.AlertSettings().Account, Processing: []event.Processing{event.ProcessingMissing},
			Since: until.Add(-processingSpan), Until: until, Limit: processingLimit,
		})
		cancel()
		if err != nil {
			return ctx.Err() // the store is away: nothing is known, and nothing is told
		}
		for _, row := range page.Rows {
			if row.LastAttemptAt.Before(until) {
				missing[row.Endpoint]++
			}
		}
		whole = !page.More
	}
	judge := func(endpoint string, v ruleResult, n int) error {
		ep, presence := a.deps.Config.Endpoint(endpoint)
		own := config.EndpointAlerts{}
		if presence == config.Present {
			own = ep.AlertsOrDefault()
		}
		f := finding{processingMissing, v, n, rule.Minutes}
		return a.consider(ctx, subject{endpoint: endpoint}, f, own, place{})
	}
	for endpoint, n := range missing {
		if err := judge(endpoint, bad, n); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	firing := a.deps.Config.Alerts(func(x *config.Alert) bool {
		return x.Firing && x.Rule == processingMissing.setting() && missing[x.Endpoint] == 0
	})
	for _, x := range firing {
		if err := judge(x.Endpoint, good, 0); err != nil {
			return err
		}
	}
	return nil
}
