package alert

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// goneTimeout is how long after a 410 answer the rule waits for the destination to be disabled because of it. It is
// also how long a destination that the endpoint does not list is not taken for deleted; see isDeleted.
const goneTimeout = 10 * time.Minute

// evaluateDestination evaluates the rules for one destination as of asOf, which is in the past while the consumer lags.
func (a *Alerts) evaluateDestination(
	ctx context.Context, part *partitionState, destID string, dest *destinationState, asOf time.Time) error {
	ep, presence := a.deps.Config.Endpoint(dest.endpoint)
	if presence != entity.Present || ep.Destination(destID) == nil {
		return nil
	}
	if ep.Partition != part.partition && len(dest.open) == 0 {
		return nil // the endpoint was moved: the owner of its new partition evaluates it
	}
	s, overrides := a.deps.Config.AlertSettings(), ep.AlertsOrDefault()
	for _, f := range dest.evaluate(asOf, a.now(), part.completeSince, s.Rules, overrides) {
		if err := a.applyEvaluation(ctx, subject{endpoint: dest.endpoint, destination: destID}, f, overrides,
			part.position(stream.Outcomes)); err != nil {
			return err
		}
	}
	return nil
}

// tick evaluates what time alone can change, once every tickEvery: backlog ages, windows that have moved on, a
// breaker that stays open, configuration changes.
func (a *Alerts) tick(ctx context.Context) error {
	for _, part := range a.partitions {
		outcomes, events := a.knownUntil(part, stream.Outcomes, a.now()), a.knownUntil(part, stream.Events, a.now())
		for destID, dest := range part.destinations {
			if outcomes.IsZero() || !dest.needsEvaluation(outcomes) && dest.goneAt.IsZero() {
				continue
			}
			if a.isDeleted(destID, dest) {
				delete(part.destinations, destID) // otherwise its open deliveries would never age out
				continue
			}
			if err := a.evaluateDestination(ctx, part, destID, dest, outcomes); err != nil {
				return err
			}
			if err := a.evaluateGone(ctx, part, destID, dest); err != nil {
				return err
			}
		}
		for endpoint, rejections := range part.rejections {
			ep, presence := a.deps.Config.Endpoint(endpoint)
			if presence != entity.Present || events.IsZero() {
				continue
			}
			f := rejections.evaluate(events, a.deps.Config.AlertSettings().Rules.VerificationFailed.Threshold)
			if err := a.applyEvaluation(
				ctx, subject{endpoint: endpoint}, f, ep.AlertsOrDefault(), part.position(stream.Events)); err != nil {
				return err
			}
		}
		part.sweep(outcomes, events)
		if part.failures != nil {
			part.failures.Write(ctx, part.nextOffset[stream.Outcomes], part.succeededAt)
		}
	}
	return a.recheckFiring(ctx)
}

// isDeleted reports whether a destination was deleted. When its endpoint exists but does not list it, it counts as
// deleted only goneTimeout after its last outcome: a new one may not have reached this node's configuration yet.
func (a *Alerts) isDeleted(destID string, dest *destinationState) bool {
	ep, presence := a.deps.Config.Endpoint(dest.endpoint)
	return presence == entity.Deleted || presence == entity.Present && ep.Destination(destID) == nil &&
		a.now().Sub(dest.lastOutcomeAt) > goneTimeout
}

// disables reports whether the service disables a destination for that reason.
func disables(reason event.Reason) bool {
	return reason == event.Gone410 || reason == event.ReceiverDisabled
}

// evaluateGone fires destination.disabled when a destination was disabled for what it answered.
func (a *Alerts) evaluateGone(ctx context.Context, part *partitionState, destID string, dest *destinationState) error {
	if dest.goneAt.IsZero() {
		return nil
	}
	ep, presence := a.deps.Config.Endpoint(dest.endpoint)
	if presence != entity.Present {
		return nil
	}
	d := ep.Destination(destID)
	if d == nil || d.Enabled || !disables(event.Reason(d.StateReason)) {
		if a.now().Sub(dest.goneAt) > goneTimeout {
			dest.goneAt = time.Time{}
		}
		return nil
	}
	about := subject{endpoint: dest.endpoint, destination: destID}
	f := evaluation{rule: destinationGone, result: bad, value: d.StateReason}
	// It fires once per such answer. If a cooldown or a mute suppresses it now, it fires later.
	alerted := func() bool {
		x := a.deps.Config.Alert(alertID(f.rule, about))
		return x != nil && !x.FiredAt.Before(dest.goneAt)
	}
	if !alerted() {
		if err := a.applyEvaluation(ctx, about, f, ep.AlertsOrDefault(), part.position(stream.Outcomes)); err != nil {
			return err
		}
	}
	if alerted() {
		dest.goneAt = time.Time{}
	}
	return nil
}

// recheckFiring re-checks the firing alerts of this node's partitions against the configuration. It resolves those
// whose destination was enabled again or deleted, or whose rule was switched off: no outcome reports these changes.
func (a *Alerts) recheckFiring(ctx context.Context) error {
	firing := a.deps.Config.Alerts(func(x *alerting.Alert) bool {
		return x.Firing && a.partitions[x.Partition] != nil && x.Endpoint != ""
	})
	for _, x := range firing {
		messageType, _, _ := strings.Cut(x.ID, "/")
		r, known := ruleOfType(messageType)
		part := a.partitions[x.Partition]
		if !known {
			continue
		}
		f, overrides := evaluation{rule: r}, alerting.EndpointAlerts{}
		ep, presence := a.deps.Config.Endpoint(x.Endpoint)
		if presence == entity.Present {
			overrides = ep.AlertsOrDefault()
			d := ep.Destination(x.Destination)
			switch {
			case x.Destination != "" && d == nil:
				overrides = alerting.EndpointAlerts{} // deleted: the alert resolves without a notice
			case r == destinationGone && d.Enabled:
				f.result, f.value = good, "active"
			case r == verificationFailed: // with a counter, tick evaluates the rule without new rejections too
				part.rejectionsOf(x.Endpoint, a.now())
			}
		}
		s := subject{endpoint: x.Endpoint, destination: x.Destination, other: x.Subject}
		if err := a.applyEvaluation(ctx, s, f, overrides, logPosition{x.Partition, x.Position}); err != nil {
			return err
		}
	}
	return nil
}

// applyEvaluation makes the transition that an evaluation requires, if any. It returns once the transition is durable,
// because offsets are committed after it. While the configuration log is unavailable it retries every second. An alert
// beyond the maximum does not fire: waiting for room would keep those that fire from being resolved, which makes room.
func (a *Alerts) applyEvaluation(
	ctx context.Context, about subject, f evaluation, overrides alerting.EndpointAlerts, at logPosition) error {
	name := alertID(f.rule, about)
	if f.result == inconclusive && overrides.Enabled && overrides.MutedUntil.IsZero() &&
		f.rule.enabled(&a.deps.Config.AlertSettings().Rules) {
		return nil
	}
	before := a.deps.Config.Alert(name)
	if f.result != bad && (before == nil || !before.Firing) {
		return nil
	}
	for {
		s, now := a.deps.Config.AlertSettings(), a.now()
		if change, _ := nextTransition(before, f, s, overrides, at, now); change == unchanged {
			return nil
		}
		var change transition
		var announce bool
		changed, err := a.deps.Config.ChangeAlert(ctx, name, func(x *alerting.Alert) error {
			if change, announce = nextTransition(x, f, s, overrides, at, now); change == unchanged {
				return alerting.ErrAlertUnchanged
			}
			writeTransition(x, about, f, change, at, now)
			if announce {
				a.addNotice(x, f, change, targets(s, overrides), now)
			}
			return nil
		})
		if err == nil {
			if changed != nil {
				a.full.Store(false)
				a.reportTransition(changed, f, change, announce)
			}
			return nil
		}
		if errors.Is(err, config.ErrStateFull) { // the next tick tries again, when others may have been resolved
			if !a.full.Swap(true) {
				a.log.LogAttrs(ctx, slog.LevelError, "there are as many alerts as there may be; further ones do not fire")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot write an alert transition", slog.String("alert", name),
			slog.Any("error", err))
		if err := wait.For(ctx, retryEvery); err != nil {
			return err
		}
		before = a.deps.Config.Alert(name)
	}
}

// writeTransition writes a transition into the alert.
func writeTransition(
	x *alerting.Alert, about subject, f evaluation, change transition, at logPosition, now time.Time) {
	x.Rule, x.Endpoint, x.Destination, x.Subject = f.rule.settingName(), about.endpoint, about.destination, about.other
	x.Firing, x.Since = change == fire, now
	x.Partition, x.Position = at.partition, at.position
	if change == fire {
		x.FiredAt, x.Value, x.Threshold = now, f.value, f.threshold
	}
}

// addNotice adds the notice about a transition to the alert, if it goes anywhere.
func (a *Alerts) addNotice(x *alerting.Alert, f evaluation, change transition, to []string, now time.Time) {
	if len(to) == 0 {
		return
	}
	noticeType := "alert." + f.rule.messageType()
	if change == resolve {
		noticeType += resolvedSuffix
	}
	x.Notices = append(x.Notices, a.newNotice(noticeType, f, to, now))
}

// newNotice returns a notice that is due at once.
func (a *Alerts) newNotice(noticeType string, f evaluation, to []string, now time.Time) alerting.AlertNotice {
	return alerting.AlertNotice{
		ID: id.Random("alrt_"), Type: noticeType, At: now, Value: f.value, Threshold: f.threshold, PendingTargets: to,
		NextAt: now, Event: f.event,
	}
}

// reportTransition counts and logs a transition that is durable, and wakes the notifier.
func (a *Alerts) reportTransition(x *alerting.Alert, f evaluation, change transition, announce bool) {
	to := "resolved"
	if change == fire {
		to = "firing"
	}
	a.metrics.transitions.WithLabelValues(x.Rule, to).Inc()
	a.log.LogAttrs(context.Background(), slog.LevelInfo, "alert changed its state", slog.String("alert", x.ID),
		slog.String("state", to),
		slog.Bool("announced", announce), slog.Any("value", f.value))
	a.notifier.wakeUp()
}

// mailTarget is the prefix of a target that is one mail address.
const mailTarget = string(notify.Email) + ":"

// targets returns where a notice goes: the enabled channels that the endpoint's settings allow. Every mail address is
// a target of its own, so that a refused address delays no other.
func targets(s *alerting.AlertSettings, overrides alerting.EndpointAlerts) (to []string) {
	for _, c := range s.Channels {
		if !c.Enabled || overrides.Channels != nil && !slices.Contains(overrides.Channels, c.Kind) {
			continue
		}
		if len(c.To) == 0 {
			to = append(to, c.Kind)
		}
		for _, address := range c.To {
			to = append(to, mailTarget+address)
		}
	}
	return to
}
