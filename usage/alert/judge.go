package alert

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// goneWatch is how long after a 410 it is waited for the destination to be disabled for it.
const goneWatch = 10 * time.Minute

// judgeTrack holds one destination to the rules as of now, which is before the present while the log is read late.
func (a *Alerts) judgeTrack(ctx context.Context, b *book, dest string, k *track, now time.Time) error {
	ep, presence := a.deps.Config.Endpoint(k.endpoint)
	if presence != config.Present || ep.Destination(dest) == nil {
		return nil
	}
	if ep.Partition != b.partition && len(k.open) == 0 {
		return nil // the endpoint was moved, and what is told of it is told elsewhere
	}
	s, own := a.deps.Config.AlertSettings(), ep.AlertsOrDefault()
	for _, f := range k.judge(now, a.now(), b.whole, s.Rules, own) {
		if err := a.consider(ctx, subject{endpoint: k.endpoint, destination: dest}, f, own,
			b.place(stream.Outcomes)); err != nil {
			return err
		}
	}
	return nil
}

// beat judges what time alone changes.
func (a *Alerts) beat(ctx context.Context) error {
	for _, b := range a.books {
		outcomes, events := a.known(b, stream.Outcomes, a.now()), a.known(b, stream.Events, a.now())
		for dest, k := range b.tracks {
			if outcomes.IsZero() || !k.troubled(outcomes) && k.goneAt.IsZero() {
				continue
			}
			if a.isDeleted(dest, k) {
				delete(b.tracks, dest) // else what was open of it would be for ever
				continue
			}
			if err := a.judgeTrack(ctx, b, dest, k, outcomes); err != nil {
				return err
			}
			if err := a.judgeGone(ctx, b, dest, k); err != nil {
				return err
			}
		}
		for endpoint, g := range b.gates {
			ep, presence := a.deps.Config.Endpoint(endpoint)
			if presence != config.Present || events.IsZero() {
				continue
			}
			f := g.judge(events, a.deps.Config.AlertSettings().Rules.VerificationFailed.Threshold)
			if err := a.consider(ctx, subject{endpoint: endpoint}, f, ep.AlertsOrDefault(), b.place(stream.Events)); err != nil {
				return err
			}
		}
		b.sweep(outcomes, events)
	}
	return a.reviewFiring(ctx)
}

// isDeleted reports whether a destination is no more. One that was made lately may not have come to this node yet.
func (a *Alerts) isDeleted(dest string, k *track) bool {
	ep, presence := a.deps.Config.Endpoint(k.endpoint)
	return presence == config.Deleted || presence == config.Present && ep.Destination(dest) == nil &&
		a.now().Sub(k.saidAt) > goneWatch
}

// judgeGone looks whether a destination that answered 410 was disabled for it.
func (a *Alerts) judgeGone(ctx context.Context, b *book, dest string, k *track) error {
	if k.goneAt.IsZero() {
		return nil
	}
	ep, presence := a.deps.Config.Endpoint(k.endpoint)
	if presence != config.Present {
		return nil
	}
	d := ep.Destination(dest)
	if d == nil || d.Enabled || d.StateReason != string(event.Gone410) {
		if a.now().Sub(k.goneAt) > goneWatch {
			k.goneAt = time.Time{}
		}
		return nil
	}
	about := subject{endpoint: k.endpoint, destination: dest}
	f := finding{destinationGone, bad, string(event.Gone410), nil}
	// It is told of once: during a cooldown, or while the endpoint is muted, later.
	told := func() bool {
		x := a.deps.Config.Alert(idOf(f.rule, about))
		return x != nil && !x.FiredAt.Before(k.goneAt)
	}
	if !told() {
		if err := a.consider(ctx, about, f, ep.AlertsOrDefault(), b.place(stream.Outcomes)); err != nil {
			return err
		}
	}
	if told() {
		k.goneAt = time.Time{}
	}
	return nil
}

// reviewFiring looks at the alerts of this node's partitions that fire: those whose destination is enabled again, or
// deleted, or whose rule was switched off are over although no event says so.
func (a *Alerts) reviewFiring(ctx context.Context) error {
	firing := a.deps.Config.Alerts(func(x *config.Alert) bool {
		return x.Firing && a.books[x.Partition] != nil && x.Endpoint != ""
	})
	for _, x := range firing {
		topic, _, _ := strings.Cut(x.ID, "/")
		r, known := ruleNamed(topic)
		b := a.books[x.Partition]
		if !known {
			continue
		}
		f, own := finding{rule: r}, config.EndpointAlerts{}
		ep, presence := a.deps.Config.Endpoint(x.Endpoint)
		if presence == config.Present {
			own = ep.AlertsOrDefault()
			d := ep.Destination(x.Destination)
			switch {
			case x.Destination != "" && d == nil:
				own = config.EndpointAlerts{} // it is gone: the alert ends without a word
			case r == destinationGone && d.Enabled:
				f.result, f.value = good, "active"
			case r == verificationFailed:
				b.gate(x.Endpoint, a.now())
			}
		}
		s := subject{endpoint: x.Endpoint, destination: x.Destination, other: x.Subject}
		if err := a.consider(ctx, s, f, own, place{x.Partition, x.Position}); err != nil {
			return err
		}
	}
	return nil
}

// consider makes the transition that a finding calls for, if any, and does not return before it is durable: offsets
// are committed after it.
func (a *Alerts) consider(ctx context.Context, about subject, f finding, own config.EndpointAlerts, at place) error {
	name := idOf(f.rule, about)
	if f.result == silent && own.Enabled && own.MutedUntil.IsZero() && f.rule.on(&a.deps.Config.AlertSettings().Rules) {
		return nil
	}
	before := a.deps.Config.Alert(name)
	if f.result != bad && (before == nil || !before.Firing) {
		return nil
	}
	for {
		s, now := a.deps.Config.AlertSettings(), a.now()
		if what, _ := next(before, f, s, own, at, now); what == stay {
			return nil
		}
		var what step
		var told bool
		changed, err := a.deps.Config.ChangeAlert(ctx, name, func(x *config.Alert) error {
			if what, told = next(x, f, s, own, at, now); what == stay {
				return config.ErrAlertUnchanged
			}
			a.apply(x, about, f, what, told, targets(s, own), at, now)
			return nil
		})
		if err == nil {
			if changed != nil {
				a.changed(changed, f, what, told)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "write that an alert changed", slog.String("alert", name), slog.Any("error", err))
		if err := wait.For(ctx, retryEvery); err != nil {
			return err
		}
		before = a.deps.Config.Alert(name)
	}
}

// claim is how long the node that wrote a message has it for itself: longer than one try takes.
const claim = 3 * notify.Timeout

// apply writes a transition into the alert.
func (a *Alerts) apply(x *config.Alert, about subject, f finding, what step, told bool, to []string, at place,
	now time.Time) {
	x.Rule, x.Endpoint, x.Destination, x.Subject = f.rule.setting(), about.endpoint, about.destination, about.other
	x.Firing, x.Since = what == fire, now
	x.Partition, x.Position = at.partition, at.position
	kind := "alert." + f.rule.topic()
	if what == fire {
		x.FiredAt = now
	} else {
		kind += resolved
	}
	if told && len(to) > 0 {
		x.Notices = append(x.Notices, a.notice(kind, f, to, now))
	}
}

func (a *Alerts) notice(kind string, f finding, to []string, now time.Time) config.AlertNotice {
	return config.AlertNotice{
		ID: id.Random("alrt_"), Type: kind, At: now, Value: f.value, Threshold: f.threshold, PendingTargets: to,
		NextAt: now, LeaseNode: a.cfg.Node, LeaseUntil: now.Add(claim),
	}
}

func (a *Alerts) changed(x *config.Alert, f finding, what step, told bool) {
	to := "resolved"
	if what == fire {
		to = "firing"
	}
	a.metrics.transitions.WithLabelValues(x.Rule, to).Inc()
	a.log.LogAttrs(context.Background(), slog.LevelInfo, "alert", slog.String("alert", x.ID), slog.String("to", to),
		slog.Bool("told", told), slog.Any("value", f.value))
	a.herald.look()
}

// mailTarget begins the name of a target that is one mail address.
const mailTarget = string(notify.Email) + ":"

// targets are whom a message goes to: every address is one of its own, so that one that is refused holds up nobody.
func targets(s *config.AlertSettings, own config.EndpointAlerts) (to []string) {
	for _, c := range s.Channels {
		if !c.Enabled || own.Channels != nil && !slices.Contains(own.Channels, c.Kind) {
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
