package alert

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Each rule has a row in the table, and the settings have its name.
func TestRuleTable(t *testing.T) {
	var settings []string
	for r := range ruleCount {
		if x := ruleTable[r]; x.messageType == "" || x.enabled == nil || x.fired == "" {
			t.Errorf("rule %d has no row, or an incomplete one: %+v", r, x)
		}
		settings = append(settings, r.settingName())
	}
	is.Equal(t, cmp.Diff(alerting.AlertRuleNames(), slices.Compact(settings)), "", "-settings +table")
}

// TestNextTransition goes through the cases of nextTransition.
func TestNextTransition(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	s := &alerting.AlertSettings{Rules: alerting.DefaultAlertRules(), CooldownSeconds: 60}
	all, here := alerting.EndpointAlerts{Enabled: true}, logPosition{1, 100}
	f := func(name string, a *alerting.Alert, v ruleResult, overrides alerting.EndpointAlerts, at logPosition,
		want transition,
		wantAnnounce bool) {
		t.Helper()
		f := evaluation{rule: deliveryFailed, result: v}
		if got, announce := nextTransition(a, f, s, overrides, at, now); got != want ||
			announce != wantAnnounce {
			t.Errorf("%s: %v, announced %v", name, got, announce)
		}
	}
	firing := &alerting.Alert{Firing: true, FiredAt: now.Add(-time.Hour), Since: now.Add(-time.Minute), Partition: 1,
		Position: 90}
	over := func(ago time.Duration) *alerting.Alert {
		return &alerting.Alert{FiredAt: now.Add(-ago), Since: now.Add(-rereadTime + 1), Partition: 1, Position: 90}
	}
	f("the first time", nil, bad, all, here, fire, true)
	f("inconclusive from the start", nil, inconclusive, all, here, unchanged, false)
	f("good from the start", nil, good, all, here, unchanged, false)
	f("still bad", firing, bad, all, here, unchanged, false)
	f("good again", firing, good, all, here, resolve, true)
	f("inconclusive while it fires", firing, inconclusive, all, here, unchanged, false)
	f("bad again within the cooldown", over(59*time.Second), bad, all, here, unchanged, false)
	f("bad again after it", over(60*time.Second), bad, all, here, fire, true)
	f("a record from before the last transition", over(time.Hour), bad, all, logPosition{1, 89}, unchanged, false)
	f("a record from before it, good", firing, good, all, logPosition{1, 89}, unchanged, false)
	old := *over(time.Hour)
	old.Since = now.Add(-rereadTime)
	f("in a log that was recreated", &old, bad, all, logPosition{1, 5}, fire, true)
	f("at the same place later", over(time.Hour), bad, all, logPosition{1, 90}, fire, true)
	f("in another partition", over(time.Hour), bad, all, logPosition{2, 5}, fire, true)
	f("muted", nil, bad, alerting.EndpointAlerts{Enabled: true, MutedUntil: now.Add(1)}, here, unchanged, false)
	f("no longer muted", nil, bad, alerting.EndpointAlerts{Enabled: true, MutedUntil: now}, here, fire, true)
	muted := alerting.EndpointAlerts{Enabled: true, MutedUntil: now.Add(1)}
	f("muted while it fires", firing, bad, muted, here, unchanged, false)
	f("good while it is muted", firing, good, muted, here, resolve, true)
	f("switched off", nil, bad, alerting.EndpointAlerts{}, here, unchanged, false)
	f("switched off while it fires", firing, good, alerting.EndpointAlerts{}, here, resolve, false)
	s.Rules.DeliveryFailed.Enabled = false
	f("rule is off", nil, bad, all, here, unchanged, false)
	f("rule is switched off", firing, inconclusive, all, here, resolve, false)
}

func inBubble(t *testing.T, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newRig(t)) })
}

func TestConsecutiveFailures(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.ConsecutiveFailures.Enabled = true })
		r.failAttempts(19)
		r.wantNotices(consecutiveFailures)
		r.deliver(id.ID{}) // not in a row
		r.failAttempts(19)
		r.wantNotices(consecutiveFailures)
		r.failAttempts(1)
		r.wantNotices(consecutiveFailures, "alert.destination.failing")
		r.failAttempts(30)
		r.advance(time.Minute)
		r.wantNotices(consecutiveFailures, "alert.destination.failing") // not twice
		r.deliver(id.ID{})
		r.wantNotices(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved")
		// Again within the cooldown: the notice goes out when the cooldown ends.
		r.failAttempts(20)
		r.wantNotices(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved")
		r.advance(14 * time.Minute)
		r.wantNotices(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved",
			"alert.destination.failing")
		a := r.config.Alert(alertID(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		if n := a.Notices[0]; n.Value != 20.0 || n.Threshold != 20.0 || len(n.PendingTargets) != 4 || n.Begun != "" ||
			a.Rule != "consecutive_failures" {
			t.Errorf("%+v", a)
		}
	})
}

// An endpoint may override thresholds and channels, and may be muted.
func TestEndpointOverrides(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.ConsecutiveFailures.Enabled = true })
		three := 3
		overrides := func(alerts alerting.EndpointAlerts) {
			r.config.set(func(m *fakeConfig) { m.endpoint.Alerts = &alerts })
		}
		overrides(alerting.EndpointAlerts{
			Enabled: true, ConsecutiveFailures: &three, Channels: []string{"slack"}, MutedUntil: time.Now().Add(time.Minute)})
		r.failAttempts(3)
		r.advance(30 * time.Second)
		r.wantNotices(consecutiveFailures)
		r.advance(31 * time.Second) // a condition that still holds when the mute ends fires
		r.wantNotices(consecutiveFailures, "alert.destination.failing")
		a := r.config.Alert(alertID(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		if n := a.Notices[0]; len(n.PendingTargets) != 1 || n.PendingTargets[0] != "slack" || n.Threshold != 3.0 {
			t.Errorf("%+v", n)
		}
		overrides(alerting.EndpointAlerts{})
		r.advance(2 * time.Second)
		if a = r.config.Alert(a.ID); a.Firing || len(a.Notices) != 1 {
			t.Errorf("switched off while it fires: %+v", a)
		}
		overrides(alerting.EndpointAlerts{Enabled: true, ConsecutiveFailures: &three, Channels: []string{}})
		r.advance(16 * time.Minute)
		if a = r.config.Alert(a.ID); !a.Firing || len(a.Notices) != 1 {
			t.Errorf("without channels: %+v", a)
		}
	})
}

func TestDeliveryFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.DeliveryFailed.Enabled = true })
		r.failAttempts(5)
		r.wantNotices(deliveryFailed) // retried
		r.outcome(id.ID{}, event.Failed, event.AttemptsExhausted, r.attempt(false))
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.wantNotices(deliveryFailed, "alert.delivery.failed")
		r.deliver(id.ID{})
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.wantNotices(deliveryFailed, "alert.delivery.failed", "alert.delivery.failed.resolved")
		r.advance(16 * time.Minute)
		r.wantNotices(deliveryFailed, "alert.delivery.failed", "alert.delivery.failed.resolved", "alert.delivery.failed")
	})
}

// Tests of a destination that a user sends by hand cause no alert.
func TestDestinationTestsAreNotCounted(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 30 {
			a := r.attempt(false)
			a.Trigger = event.TriggerTest
			r.outcome(id.ID{}, event.Failed, event.NotRetryable, a)
		}
		r.advance(10 * time.Minute)
		if len(r.config.alerts) > 0 {
			t.Errorf("%v", r.config.alerts)
		}
	})
}

func TestFailureRate(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.FailureRate.Enabled = true })
		for range 10 {
			r.deliver(id.ID{})
		}
		r.failAttempts(9)
		r.advance(time.Second)
		r.wantNotices(failureRate) // nine of nineteen
		r.failAttempts(1)
		r.wantNotices(failureRate, "alert.destination.failure_rate") // half of twenty
		r.advance(10 * time.Minute)
		r.wantNotices(failureRate, "alert.destination.failure_rate") // an empty window resolves nothing
		r.failAttempts(1)
		r.wantNotices(failureRate, "alert.destination.failure_rate")
		r.deliver(id.ID{})
		r.deliver(id.ID{})
		r.wantNotices(failureRate, "alert.destination.failure_rate", "alert.destination.failure_rate.resolved")
		r.advance(15 * time.Minute)
		r.failAttempts(19)
		r.advance(15 * time.Minute)
		r.failAttempts(19) // never twenty within five minutes
		r.wantNotices(failureRate, "alert.destination.failure_rate", "alert.destination.failure_rate.resolved")
	})
}

// The old partition of a moved endpoint is evaluated only while it has open deliveries.
func TestMovedEndpointIsEvaluatedByItsNewOwner(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.ConsecutiveFailures = alerting.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		open := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		r.config.set(func(m *fakeConfig) { m.endpoint.Partition = 1 })
		delete(r.config.alerts, alertID(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		r.advance(time.Second)
		r.wantNotices(consecutiveFailures, "alert.destination.failing") // a delivery is still open there
		r.outcome(open, event.Failed, event.AttemptsExhausted, r.attempt(false))
		delete(r.config.alerts, alertID(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		r.advance(time.Minute)
		r.wantNotices(consecutiveFailures)
	})
}

// A new owner that knows only a part of the window does not evaluate the failure rate.
func TestFailureRateNeedsTheWholeWindow(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.FailureRate.Enabled = true })
		r.partitions[0].completeSince = time.Now()
		for range 30 {
			r.failAttempts(10)
			r.advance(10*time.Second - time.Millisecond)
		}
		r.wantNotices(failureRate)
		r.advance(10 * time.Second)
		r.wantNotices(failureRate, "alert.destination.failure_rate")
	})
}

func TestBacklogAge(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.BacklogAge = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
		})
		first := r.outcome(id.ID{}, event.Pending, event.LaneFull, nil)
		r.advance(time.Minute)
		second := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		paused := r.outcome(id.ID{}, event.Held, event.Manual, nil)
		r.advance(239 * time.Second)
		r.wantNotices(backlogAge)
		r.advance(2 * time.Second)
		r.wantNotices(backlogAge, "alert.destination.backlog")
		r.advance(2 * time.Minute)
		r.deliver(first)
		r.wantNotices(backlogAge, "alert.destination.backlog") // the second is old as well by now
		r.deliver(second)
		r.wantNotices(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
		r.advance(time.Hour)
		r.outcome(paused, event.Held, event.Manual, nil) // held by hand, however long
		r.outcome(id.ID{}, event.Pending, event.Scheduled, nil)
		r.advance(time.Hour)
		r.wantNotices(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
	})
}

// The notice of a backlog names the event that blocks it, also if that has failed for good and others wait behind it.
func TestBacklogNamesTheEventThatBlocks(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.BacklogAge = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
		})
		head := r.outcome(id.ID{}, event.Failed, event.AttemptsExhausted, r.attempt(false))
		for range 2 {
			behind := &event.Outcome{Event: r.ids.NewUnbounded(0), Account: testAccount, Endpoint: testEndpoint,
				Dest: testDest, Status: event.Held, Reason: event.Behind, At: time.Now(), Behind: head.Text(id.Event)}
			r.processRecord(stream.Outcomes, behind.Record(), &r.offset)
		}
		r.advance(301 * time.Second)
		r.config.mu.Lock()
		defer r.config.mu.Unlock()
		x := r.config.alerts[alertID(backlogAge, subject{endpoint: testEndpoint, destination: testDest})]
		must.Equal(t, len(x.Notices), 1, "notices")
		is.Equal(t, x.Notices[0].Event, head.Text(id.Event), "the event")
	})
}

// A backlog that is purged, or held by hand, is over, although no delivery was made.
func TestBacklogThatIsNotDeliveredIsOver(t *testing.T) {
	for name, end := range map[string]func(r *rig, e id.ID){
		"purged": func(r *rig, e id.ID) { r.outcome(e, event.Skipped, event.Purged, nil) },
		"paused": func(r *rig, e id.ID) { r.outcome(e, event.Held, event.Manual, nil) },
		"erased": func(r *rig, e id.ID) { r.outcome(e, event.Failed, event.PayloadExpired, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.enableOnly(func(rules *alerting.AlertRules) {
					rules.BacklogAge = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
				})
				first := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
				second := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
				r.advance(301 * time.Second)
				end(r, first)
				r.advance(time.Minute)
				r.wantNotices(backlogAge, "alert.destination.backlog") // the second waits still
				end(r, second)
				r.advance(2 * time.Second)
				r.wantNotices(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
			})
		})
	}
}

// When there is no room for another alert, those that fire are still resolved, and then the other one fires.
func TestFullAlertsDoNotBlock(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.ConsecutiveFailures.Enabled, rules.DeliveryFailed.Enabled = true, true
		})
		r.failAttempts(20)
		r.wantNotices(consecutiveFailures, "alert.destination.failing")
		r.config.set(func(m *fakeConfig) { m.most = 1 })
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.wantNotices(deliveryFailed)
		r.deliver(id.ID{})
		r.wantNotices(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved")
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.config.set(func(m *fakeConfig) { m.most = 2 })
		r.advance(2 * time.Second)
		r.wantNotices(deliveryFailed, "alert.delivery.failed")
	})
}

func TestOpenDeliveriesAreBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		r.failAttempts(2 * maxOpen)
		k := r.partitions[0].destinations[testDest]
		if _, kept := k.open[first]; len(k.open) != maxOpen || !kept || k.oldestAge(time.Now()) != time.Since(first.Time()) {
			t.Errorf("%d are kept, the oldest %v, age %v", len(k.open), kept, k.oldestAge(time.Now()))
		}
	})
}

func TestDestinationHeld(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.DestinationState.Enabled = true })
		e := r.outcome(id.ID{}, event.Held, event.BreakerOpen, nil)
		r.advance(2 * time.Second)
		r.deliver(e) // parked just before a success
		r.advance(time.Minute)
		r.wantNotices(destinationHeld)
		r.outcome(id.ID{}, event.Held, event.BreakerOpen, nil)
		r.advance(4 * time.Second)
		r.failAttempts(1) // a probe
		r.wantNotices(destinationHeld, "alert.destination.held")
		r.deliver(id.ID{})
		r.wantNotices(destinationHeld, "alert.destination.held", "alert.destination.held.resolved")
	})
}

func TestDestinationGone(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.DestinationState.Enabled = true })
		set := func(enabled bool, reason string) {
			r.config.set(func(m *fakeConfig) {
				m.endpoint.Destinations[0].Enabled, m.endpoint.Destinations[0].StateReason = enabled, reason
			})
		}
		r.outcome(id.ID{}, event.Failed, event.Gone410, r.attempt(false))
		set(false, "") // by hand
		r.advance(time.Second)
		r.wantNotices(destinationGone)
		set(false, string(event.Gone410))
		r.advance(time.Second)
		r.wantNotices(destinationGone, "alert.destination.disabled")
		r.advance(time.Hour)
		set(true, "")
		r.advance(time.Second)
		announced := []string{"alert.destination.disabled", "alert.destination.disabled.resolved"}
		r.wantNotices(destinationGone, announced...)

		// Again, within the cooldown: it fires when the cooldown ends, if the destination is still disabled.
		var last *stream.Record
		again := func() {
			last = r.newOutcome(r.ids.NewUnbounded(0), event.Failed, event.ReceiverDisabled, r.attempt(false))
			r.process(last)
			set(false, string(event.ReceiverDisabled))
			r.advance(time.Second)
		}
		again()
		announced = append(announced, "alert.destination.disabled")
		r.wantNotices(destinationGone, announced...)
		set(true, "")
		r.advance(time.Minute)
		again()
		announced = append(announced, "alert.destination.disabled.resolved")
		r.wantNotices(destinationGone, announced...)
		r.advance(alerting.DefaultAlertCooldown * time.Second)
		announced = append(announced, "alert.destination.disabled")
		r.wantNotices(destinationGone, announced...)

		// Not again by the next owner, when the alert was resolved without a notice meanwhile.
		r.config.set(func(m *fakeConfig) {
			m.alerts[alertID(destinationGone, subject{endpoint: testEndpoint, destination: testDest})].Firing = false
		})
		r.partitions[0] = newPartitionState(0)
		r.advance(alerting.DefaultAlertCooldown * time.Second)
		r.process(last)
		r.advance(time.Second)
		r.wantNotices(destinationGone, announced...)
	})
}

// A firing alert whose endpoint or destination is deleted is resolved without a notice.
func TestDeletionResolvesWithoutANotice(t *testing.T) {
	for name, remove := range map[string]func(*fakeConfig){
		"destination": func(m *fakeConfig) { m.endpoint.Destinations = m.endpoint.Destinations[1:] },
		"endpoint":    func(m *fakeConfig) { m.endpoint = nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.enableOnly(func(rules *alerting.AlertRules) { rules.DeliveryFailed.Enabled = true })
				r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
				r.config.set(remove)
				r.advance(time.Second)
				r.wantNotices(deliveryFailed, "alert.delivery.failed")
				if a := r.config.Alert(alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})); a.Firing {
					t.Errorf("%+v", a)
				}
				r.advance(goneTimeout)
				if len(r.partitions[0].destinations) > 0 {
					t.Error("the state of a deleted destination is kept")
				}
			})
		})
	}
}

func TestVerificationFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.VerificationFailed.Enabled = true })
		reject := func(n int, v event.Verdict) {
			for range n {
				e := must.Get(r.ids.New(0))(t)
				r.processRecord(stream.Events, (&event.Event{ID: e, Endpoint: testEndpoint, Verdict: v}).Record(), &r.events)
			}
		}
		reject(9, event.VerdictRejected)
		reject(100, event.VerdictVerified)
		r.advance(4 * time.Minute)
		r.wantNotices(verificationFailed)
		reject(1, event.VerdictRejected)
		r.advance(time.Second)
		r.wantNotices(verificationFailed, "alert.endpoint.verification_failed")
		r.advance(4 * time.Minute)
		r.wantNotices(verificationFailed, "alert.endpoint.verification_failed")
		r.advance(2 * time.Minute)
		r.wantNotices(verificationFailed, "alert.endpoint.verification_failed", "alert.endpoint.verification_failed.resolved")
		r.advance(time.Minute)
		if len(r.partitions[0].rejections) > 0 {
			t.Error("the counter of an endpoint without rejections is kept")
		}
	})
}

// usageFunc implements Usage.
type usageFunc func() (int64, int64, error)

func (f usageFunc) Used(context.Context) (int64, int64, error) { return f() }

func TestUsage(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.Usage = alerting.AlertUsageRule{Enabled: true, Percent: []int{80, 100}}
		})
		var used, allowance int64 = 79, 100
		var unavailable error
		r.deps.Usage = usageFunc(func() (int64, int64, error) { return used, allowance, unavailable })
		r.advance(10 * time.Second)
		r.wantNotices(usageShare)
		used = 80
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold")
		used, unavailable = 0, fmt.Errorf("store is unavailable")
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold")
		used, unavailable = 250, nil
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold", "alert.usage.threshold")
		r.config.set(func(m *fakeConfig) { m.settings.Rules.Usage.Percent = []int{80} })
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold", "alert.usage.threshold")
		used = 0 // another month
		r.advance(10 * time.Second)
		if got := r.notices(usageShare); len(got) != 3 {
			t.Errorf("announced %v", got)
		}
		time.Sleep(26 * time.Hour)
		r.advance(10 * time.Second)
		if got := r.config.Alert(alertID(usageShare, subject{other: "100"})); got != nil && len(got.Notices) == 0 {
			t.Errorf("an alert that did not change for a day is kept: %+v", got)
		}
	})
}

// When the operator removes the allowance, the alert about it is over, and nobody gets a message about that.
func TestUsageWithoutAnAllowanceIsResolved(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.Usage = alerting.AlertUsageRule{Enabled: true, Percent: []int{80}}
		})
		var allowance int64 = 100
		r.deps.Usage = usageFunc(func() (int64, int64, error) { return 90, allowance, nil })
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold")
		allowance = 0
		r.advance(10 * time.Second)
		r.wantNotices(usageShare, "alert.usage.threshold")
		if r.config.Alert(alertID(usageShare, subject{other: "80"})).Firing {
			t.Error("it fires for ever")
		}
	})
}

// eventsFunc implements Events.
type eventsFunc func(event.Query) (event.Page, error)

func (f eventsFunc) Events(_ context.Context, q event.Query) (event.Page, error) { return f(q) }

func TestProcessingMissing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.ProcessingMissing = alerting.AlertProcessingRule{Enabled: true, Minutes: 30}
		})
		var page event.Page
		var unavailable error
		r.deps.Events = eventsFunc(func(q event.Query) (event.Page, error) {
			if now := time.Now(); q.Account != testAccount || len(q.Processing) != 1 ||
				q.Processing[0] != event.ProcessingMissing || !q.Until.Equal(now.Add(-30*time.Minute)) || q.Limit != 100 {
				t.Errorf("asked for %+v", q)
			}
			return page, unavailable
		})
		row := func(delivered time.Time) event.Summary {
			return event.Summary{Endpoint: testEndpoint, LastAttemptAt: delivered}
		}
		page.Rows = []event.Summary{row(time.Now().Add(-10 * time.Minute))} // received long ago, delivered lately
		r.advance(5 * time.Minute)
		r.wantNotices(processingMissing)
		r.advance(20 * time.Minute)
		r.wantNotices(processingMissing, "alert.processing.missing")
		page.Rows, page.More = nil, true
		r.advance(5 * time.Minute)
		page.More, unavailable = false, event.ErrUnavailable
		r.advance(5 * time.Minute)
		r.wantNotices(processingMissing, "alert.processing.missing") // nothing is known
		unavailable = nil
		r.advance(2 * time.Minute)
		r.wantNotices(processingMissing, "alert.processing.missing", "alert.processing.missing.resolved")
	})
}

// An endpoint that fetches events fires when it could not for long enough, also while nobody says anything for a while.
func TestSourceFailing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.SourceFailing = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
		})
		fault, known, fetching := "topic orders not found", true, true
		r.deps.Sources = func(context.Context) (all []Source, of map[string]bool) {
			if known {
				all = []Source{{testEndpoint, fault}}
			}
			return all, map[string]bool{testEndpoint: fetching}
		}
		r.advance(4 * time.Minute)
		known = false
		r.advance(2 * time.Minute)
		r.wantNotices(sourceFailing)
		known = true
		r.advance(time.Minute)
		r.wantNotices(sourceFailing, "alert.endpoint.source_failing")
		if a := r.config.Alert(alertID(sourceFailing, subject{endpoint: testEndpoint})); a.Value != fault {
			t.Errorf("says %v", a.Value)
		}
		fault = ""
		r.advance(time.Minute)
		r.wantNotices(sourceFailing, "alert.endpoint.source_failing", "alert.endpoint.source_failing.resolved")
		fault = "refused"
		r.advance(2 * time.Hour)
		fetching, known = false, false // the source is taken out of the endpoint
		r.advance(time.Minute)
		r.wantNotices(sourceFailing, "alert.endpoint.source_failing", "alert.endpoint.source_failing.resolved",
			"alert.endpoint.source_failing", "alert.endpoint.source_failing.resolved")
	})
}

func TestRecoveryEnds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.Recovery.Enabled = true })
		job := func(name string, state jobs.RecoveryState, ago time.Duration) {
			r.config.set(func(m *fakeConfig) {
				m.jobs = append(m.jobs, &jobs.Recovery{
					Meta: entity.Meta{ID: name}, Endpoint: testEndpoint, State: state, FinishedAt: time.Now().Add(-ago)})
			})
		}
		job("rec_1", jobs.RecoveryCompleted, 25*time.Hour)
		r.advance(10 * time.Second)
		r.wantNotices(recoveryEnded)
		job("rec_2", jobs.RecoveryStopped, time.Second)
		r.advance(time.Minute)
		r.wantNotices(recoveryEnded, "alert.recovery.ended")
		r.enableOnly(func(*alerting.AlertRules) {})
		job("rec_3", jobs.RecoveryCompleted, 0)
		r.advance(time.Minute)
		r.enableOnly(func(rules *alerting.AlertRules) { rules.Recovery.Enabled = true })
		r.advance(time.Minute)
		// jobs that ended while the rule was off are not announced later
		r.wantNotices(recoveryEnded, "alert.recovery.ended")
	})
}

// Records are read again after restarts at every offset: no transition is announced twice or lost.
func TestRestartRepeatsNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKeyring(t)
		m, o := newFakeConfig(k), &fakeSender{}
		m.settings.CooldownSeconds = 0
		first := rigOn(t, "a", k, m, o)
		first.enableOnly(func(rules *alerting.AlertRules) {
			rules.ConsecutiveFailures = alerting.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		var log []*stream.Record
		for i := range 40 {
			attempt := first.attempt(i%8 == 7)
			status := event.Retrying
			if attempt.OK {
				status = event.Delivered
			}
			e := must.Get(first.ids.New(0))(t)
			rec := (&event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: status, At: time.Now(),
				Attempt: attempt}).Record()
			rec.Topic, rec.Offset, rec.Timestamp = stream.Outcomes, int64(i), time.Now()
			log = append(log, rec)
			time.Sleep(time.Second)
		}
		read := func(r *rig, committed, to int) {
			t.Helper()
			for _, rec := range log[:committed] {
				if _, _, _, err := r.partitions[0].addOutcome(rec, r.rateWindow()); err != nil {
					t.Fatal(err)
				}
			}
			batch := stream.Batch{Partition: testOutcomes, Records: log[committed:to]}
			must.Do(t, r.processBatch(t.Context(), batch, map[stream.Partition]stream.Commit{}))
		}
		read(first, 0, 20)
		for back := range 20 { // killed before it committed the last records
			read(rigOn(t, "b", k, m, o), back, 20)
		}
		first.wantNotices(consecutiveFailures, wantRounds(2, true)...)
		for to := 21; to <= 40; to++ {
			read(rigOn(t, "c", k, m, o), to-7, to)
		}
		first.wantNotices(consecutiveFailures, wantRounds(5, false)...)
	})
}

// wantRounds returns the notices of n rounds of failures; half adds the first notice of the next round.
func wantRounds(n int, half bool) (types []string) {
	for range n {
		types = append(types, "alert.destination.failing", "alert.destination.failing.resolved")
	}
	if half {
		types = append(types, "alert.destination.failing")
	}
	return types
}

// While the configuration log is unavailable evaluation waits; a condition that was bad then is announced afterwards.
func TestEvaluationWaitsForTheConfigurationLog(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.ConsecutiveFailures = alerting.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		r.config.set(func(m *fakeConfig) { m.unavailable = true })
		back := time.AfterFunc(10*time.Second, func() { r.config.set(func(m *fakeConfig) { m.unavailable = false }) })
		defer back.Stop()
		start := time.Now()
		r.failAttempts(3)
		if time.Since(start) < 10*time.Second {
			t.Error("went on without the configuration log")
		}
		r.wantNotices(consecutiveFailures, "alert.destination.failing")
	})
}

// fakeCounter keeps what the counter of failures is given.
type fakeCounter struct {
	offsets   []int64
	next      int64
	succeeded time.Time
}

func (c *fakeCounter) Count(_ *event.OutcomeHead, _ string, offset int64) {
	c.offsets = append(c.offsets, offset)
}

func (c *fakeCounter) Write(_ context.Context, next int64, succeededAt func(string) time.Time) {
	c.next, c.succeeded = next, succeededAt(testDest)
}

// What counts failures sees each outcome, where the next one is, and when a destination has last worked.
func TestFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), &fakeCounter{}
		r.deps.Failures = func(int32) FailureCounter { return c }
		r.partitions[0] = r.newPartition(0)
		r.failAttempts(2)
		r.advance(tickEvery)
		is.Equal(t, c.succeeded.IsZero(), true, "a destination that has not worked")
		r.deliver(noEvent)
		worked := time.Now()
		r.advance(tickEvery)
		is.List(t, c.offsets, []int64{0, 1, 2}, "offsets")
		is.Equal(t, c.next, 3, "the next offset")
		is.Equal(t, c.succeeded.Equal(worked), true, "the last success")
	})
}
