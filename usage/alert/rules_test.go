package alert

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// TestNext is the rule of all alerts, case by case.
func TestNext(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	s := &config.AlertSettings{Rules: config.DefaultAlertRules(), CooldownSeconds: 60}
	all, here := config.EndpointAlerts{Enabled: true}, place{1, 100}
	f := func(name string, a *config.Alert, v ruleResult, own config.EndpointAlerts, at place, want step, wantTold bool) {
		t.Helper()
		if got, told := next(a, finding{rule: deliveryFailed, result: v}, s, own, at, now); got != want || told != wantTold {
			t.Errorf("%s: %v, told %v", name, got, told)
		}
	}
	firing := &config.Alert{Firing: true, FiredAt: now.Add(-time.Hour), Since: now.Add(-time.Minute), Partition: 1,
		Position: 90}
	over := func(ago time.Duration) *config.Alert {
		return &config.Alert{FiredAt: now.Add(-ago), Since: now.Add(-readAgain + 1), Partition: 1, Position: 90}
	}
	f("the first time", nil, bad, all, here, fire, true)
	f("nothing to say", nil, silent, all, here, stay, false)
	f("good from the start", nil, good, all, here, stay, false)
	f("still bad", firing, bad, all, here, stay, false)
	f("good again", firing, good, all, here, resolve, true)
	f("nothing new", firing, silent, all, here, stay, false)
	f("bad again within the cooldown", over(59*time.Second), bad, all, here, stay, false)
	f("bad again after it", over(60*time.Second), bad, all, here, fire, true)
	f("read a second time", over(time.Hour), bad, all, place{1, 89}, stay, false)
	f("read a second time, the end", firing, good, all, place{1, 89}, stay, false)
	old := *over(time.Hour)
	old.Since = now.Add(-readAgain)
	f("in a log that was made anew", &old, bad, all, place{1, 5}, fire, true)
	f("at the same place later", over(time.Hour), bad, all, place{1, 90}, fire, true)
	f("in another partition", over(time.Hour), bad, all, place{2, 5}, fire, true)
	f("muted", nil, bad, config.EndpointAlerts{Enabled: true, MutedUntil: now.Add(1)}, here, stay, false)
	f("no longer muted", nil, bad, config.EndpointAlerts{Enabled: true, MutedUntil: now}, here, fire, true)
	f("muted while it fires", firing, bad, config.EndpointAlerts{Enabled: true, MutedUntil: now.Add(1)}, here,
		resolve, false)
	f("switched off", nil, bad, config.EndpointAlerts{}, here, stay, false)
	f("switched off while it fires", firing, good, config.EndpointAlerts{}, here, resolve, false)
	s.Rules.DeliveryFailed.Enabled = false
	f("rule is off", nil, bad, all, here, stay, false)
	f("rule is switched off", firing, silent, all, here, resolve, false)
}

func bubble(t *testing.T, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newRig(t)) })
}

func TestConsecutiveFailures(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.ConsecutiveFailures.Enabled = true })
		r.fails(19)
		r.wants(consecutiveFailures)
		r.delivers(id.ID{}) // not in a row
		r.fails(19)
		r.wants(consecutiveFailures)
		r.fails(1)
		r.wants(consecutiveFailures, "alert.destination.failing")
		r.fails(30)
		r.passes(time.Minute)
		r.wants(consecutiveFailures, "alert.destination.failing") // not twice
		r.delivers(id.ID{})
		r.wants(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved")
		// Again within the cooldown: it waits for its end, and is told then.
		r.fails(20)
		r.wants(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved")
		r.passes(14 * time.Minute)
		r.wants(consecutiveFailures, "alert.destination.failing", "alert.destination.failing.resolved",
			"alert.destination.failing")
		a := r.memory.Alert(idOf(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		if n := a.Notices[0]; n.Value != 20.0 || n.Threshold != 20.0 || len(n.PendingTargets) != 4 || n.LeaseNode != "a" ||
			a.Rule != "consecutive_failures" {
			t.Errorf("%+v", a)
		}
	})
}

// An endpoint may have thresholds and channels of its own, and may be muted.
func TestEndpointOverrides(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.ConsecutiveFailures.Enabled = true })
		three := 3
		own := func(alerts config.EndpointAlerts) { r.memory.set(func(m *memory) { m.endpoint.Alerts = &alerts }) }
		own(config.EndpointAlerts{
			Enabled: true, ConsecutiveFailures: &three, Channels: []string{"slack"}, MutedUntil: time.Now().Add(time.Minute)})
		r.fails(3)
		r.passes(30 * time.Second)
		r.wants(consecutiveFailures)
		r.passes(31 * time.Second) // what is still so when the silence ends is told
		r.wants(consecutiveFailures, "alert.destination.failing")
		a := r.memory.Alert(idOf(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		if n := a.Notices[0]; len(n.PendingTargets) != 1 || n.PendingTargets[0] != "slack" || n.Threshold != 3.0 {
			t.Errorf("%+v", n)
		}
		own(config.EndpointAlerts{})
		r.passes(2 * time.Second)
		if a = r.memory.Alert(a.ID); a.Firing || len(a.Notices) != 1 {
			t.Errorf("switched off while it fires: %+v", a)
		}
		own(config.EndpointAlerts{Enabled: true, ConsecutiveFailures: &three, Channels: []string{}})
		r.passes(16 * time.Minute)
		if a = r.memory.Alert(a.ID); !a.Firing || len(a.Notices) != 1 {
			t.Errorf("without channels: %+v", a)
		}
	})
}

func TestDeliveryFailed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.DeliveryFailed.Enabled = true })
		r.fails(5)
		r.wants(deliveryFailed) // retried
		r.outcome(id.ID{}, event.Failed, event.AttemptsExhausted, r.attempt(false))
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.wants(deliveryFailed, "alert.delivery.failed")
		r.delivers(id.ID{})
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.wants(deliveryFailed, "alert.delivery.failed", "alert.delivery.failed.resolved")
		r.passes(16 * time.Minute)
		r.wants(deliveryFailed, "alert.delivery.failed", "alert.delivery.failed.resolved", "alert.delivery.failed")
	})
}

// A test of a destination by hand is nobody's trouble.
func TestTestsAreNotCounted(t *testing.T) {
	bubble(t, func(r *rig) {
		for range 30 {
			a := r.attempt(false)
			a.Trigger = event.TriggerTest
			r.outcome(id.ID{}, event.Failed, event.NotRetryable, a)
		}
		r.passes(10 * time.Minute)
		if len(r.memory.alerts) > 0 {
			t.Errorf("%v", r.memory.alerts)
		}
	})
}

func TestFailureRate(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.FailureRate.Enabled = true })
		for range 10 {
			r.delivers(id.ID{})
		}
		r.fails(9)
		r.passes(time.Second)
		r.wants(failureRate) // nine of nineteen
		r.fails(1)
		r.wants(failureRate, "alert.destination.failure_rate") // half of twenty
		r.passes(10 * time.Minute)
		r.wants(failureRate, "alert.destination.failure_rate") // an empty window is no good news
		r.fails(1)
		r.wants(failureRate, "alert.destination.failure_rate")
		r.delivers(id.ID{})
		r.delivers(id.ID{})
		r.wants(failureRate, "alert.destination.failure_rate", "alert.destination.failure_rate.resolved")
		r.passes(15 * time.Minute)
		r.fails(19)
		r.passes(15 * time.Minute)
		r.fails(19) // never twenty within five minutes
		r.wants(failureRate, "alert.destination.failure_rate", "alert.destination.failure_rate.resolved")
	})
}

// What an endpoint left behind in another partition when it was moved says nothing more.
func TestMovedEndpoint(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) {
			rules.ConsecutiveFailures = config.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
		open := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		r.memory.set(func(m *memory) { m.endpoint.Partition = 1 })
		delete(r.memory.alerts, idOf(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		r.passes(time.Second)
		r.wants(consecutiveFailures, "alert.destination.failing") // work is left there
		r.outcome(open, event.Failed, event.AttemptsExhausted, r.attempt(false))
		delete(r.memory.alerts, idOf(consecutiveFailures, subject{endpoint: testEndpoint, destination: testDest}))
		r.passes(time.Minute)
		r.wants(consecutiveFailures)
	})
}

// A new owner that has seen a part of the window only says nothing of the rate.
func TestFailureRateNeedsTheWholeWindow(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.FailureRate.Enabled = true })
		r.books[0].whole = time.Now()
		for range 30 {
			r.fails(10)
			r.passes(10*time.Second - time.Millisecond)
		}
		r.wants(failureRate)
		r.passes(10 * time.Second)
		r.wants(failureRate, "alert.destination.failure_rate")
	})
}

func TestBacklogAge(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.BacklogAge = config.AlertAgeRule{Enabled: true, Seconds: 300} })
		first := r.outcome(id.ID{}, event.Pending, event.LaneFull, nil)
		r.passes(time.Minute)
		second := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		paused := r.outcome(id.ID{}, event.Held, event.Manual, nil)
		r.passes(239 * time.Second)
		r.wants(backlogAge)
		r.passes(2 * time.Second)
		r.wants(backlogAge, "alert.destination.backlog")
		r.passes(2 * time.Minute)
		r.delivers(first)
		r.wants(backlogAge, "alert.destination.backlog") // the second is old as well by now
		r.delivers(second)
		r.wants(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
		r.passes(time.Hour)
		r.outcome(paused, event.Held, event.Manual, nil) // held by hand, however long
		r.wants(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
	})
}

func TestOpenDeliveriesAreBounded(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
		r.fails(2 * maxOpen)
		k := r.books[0].tracks[testDest]
		if _, kept := k.open[first]; len(k.open) != maxOpen || !kept || k.age(time.Now()) != time.Since(first.Time()) {
			t.Errorf("%d are kept, the oldest %v, age %v", len(k.open), kept, k.age(time.Now()))
		}
	})
}

func TestDestinationHeld(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.DestinationState.Enabled = true })
		e := r.outcome(id.ID{}, event.Held, event.BreakerOpen, nil)
		r.passes(2 * time.Second)
		r.delivers(e) // what was parked in the moment of a success
		r.passes(time.Minute)
		r.wants(destinationHeld)
		r.outcome(id.ID{}, event.Held, event.BreakerOpen, nil)
		r.passes(4 * time.Second)
		r.fails(1) // a probe
		r.wants(destinationHeld, "alert.destination.held")
		r.delivers(id.ID{})
		r.wants(destinationHeld, "alert.destination.held", "alert.destination.held.resolved")
	})
}

func TestDestinationGone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.DestinationState.Enabled = true })
		set := func(enabled bool, reason string) {
			r.memory.set(func(m *memory) {
				m.endpoint.Destinations[0].Enabled, m.endpoint.Destinations[0].StateReason = enabled, reason
			})
		}
		r.outcome(id.ID{}, event.Failed, event.Gone410, r.attempt(false))
		set(false, "") // by hand
		r.passes(time.Second)
		r.wants(destinationGone)
		set(false, string(event.Gone410))
		r.passes(time.Second)
		r.wants(destinationGone, "alert.destination.disabled")
		r.passes(time.Hour)
		set(true, "")
		r.passes(time.Second)
		told := []string{"alert.destination.disabled", "alert.destination.disabled.resolved"}
		r.wants(destinationGone, told...)

		// Again, within the cooldown: it is told when that has ended, if it is still so.
		var last *stream.Record
		again := func() {
			last = r.says(r.ids.Next(0), event.Failed, event.Gone410, r.attempt(false))
			r.reads(last)
			set(false, string(event.Gone410))
			r.passes(time.Second)
		}
		again()
		told = append(told, "alert.destination.disabled")
		r.wants(destinationGone, told...)
		set(true, "")
		r.passes(time.Minute)
		again()
		told = append(told, "alert.destination.disabled.resolved")
		r.wants(destinationGone, told...)
		r.passes(config.DefaultAlertCooldown * time.Second)
		told = append(told, "alert.destination.disabled")
		r.wants(destinationGone, told...)

		// Not again by the next judge, of an alert that has ended without a word meanwhile.
		r.memory.set(func(m *memory) {
			m.alerts[idOf(destinationGone, subject{endpoint: testEndpoint, destination: testDest})].Firing = false
		})
		r.books[0] = newBook(0)
		r.passes(config.DefaultAlertCooldown * time.Second)
		r.reads(last)
		r.passes(time.Second)
		r.wants(destinationGone, told...)
	})
}

// What is deleted while its alert fires ends without a word.
func TestDeletedWhileItFires(t *testing.T) {
	for name, remove := range map[string]func(*memory){
		"destination": func(m *memory) { m.endpoint.Destinations = m.endpoint.Destinations[1:] },
		"endpoint":    func(m *memory) { m.endpoint = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.only(func(rules *config.AlertRules) { rules.DeliveryFailed.Enabled = true })
				r.outcome(id.ID{}, event.Failed, event.NotRetryable, r.attempt(false))
				r.memory.set(remove)
				r.passes(time.Second)
				r.wants(deliveryFailed, "alert.delivery.failed")
				if a := r.memory.Alert(idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})); a.Firing {
					t.Errorf("%+v", a)
				}
				r.passes(goneWatch)
				if len(r.books[0].tracks) > 0 {
					t.Error("what is deleted is kept")
				}
			})
		})
	}
}

func TestVerificationFailed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.VerificationFailed.Enabled = true })
		reject := func(n int, v event.Verdict) {
			for range n {
				e, err := r.ids.New(0)
				if err != nil {
					t.Fatal(err)
				}
				r.hand(stream.Events, (&event.Event{ID: e, Endpoint: testEndpoint, Verdict: v}).Record(), &r.events)
			}
		}
		reject(9, event.VerdictRejected)
		reject(100, event.VerdictVerified)
		r.passes(4 * time.Minute)
		r.wants(verificationFailed)
		reject(1, event.VerdictRejected)
		r.passes(time.Second)
		r.wants(verificationFailed, "alert.endpoint.verification_failed")
		r.passes(4 * time.Minute)
		r.wants(verificationFailed, "alert.endpoint.verification_failed")
		r.passes(2 * time.Minute)
		r.wants(verificationFailed, "alert.endpoint.verification_failed", "alert.endpoint.verification_failed.resolved")
		r.passes(time.Minute)
		if len(r.books[0].gates) > 0 {
			t.Error("an endpoint without trouble is kept")
		}
	})
}

// usageFunc says how much is used.
type usageFunc func() (int64, int64, error)

func (f usageFunc) Used(context.Context) (int64, int64, error) { return f() }

func TestUsage(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) {
			rules.Usage = config.AlertUsageRule{Enabled: true, Percent: []int{80, 100}}
		})
		var used, allowance int64 = 79, 100
		var away error
		r.deps.Usage = usageFunc(func() (int64, int64, error) { return used, allowance, away })
		r.passes(10 * time.Second)
		r.wants(usageShare)
		used = 80
		r.passes(10 * time.Second)
		r.wants(usageShare, "alert.usage.threshold")
		used, away = 0, fmt.Errorf("store is away")
		r.passes(10 * time.Second)
		r.wants(usageShare, "alert.usage.threshold")
		used, away = 250, nil
		r.passes(10 * time.Second)
		r.wants(usageShare, "alert.usage.threshold", "alert.usage.threshold")
		r.memory.set(func(m *memory) { m.settings.Rules.Usage.Percent = []int{80} })
		r.passes(10 * time.Second)
		r.wants(usageShare, "alert.usage.threshold", "alert.usage.threshold")
		used = 0 // another month
		r.passes(10 * time.Second)
		if got := r.notices(usageShare); len(got) != 3 {
			t.Errorf("announced %v", got)
		}
		time.Sleep(26 * time.Hour)
		r.passes(10 * time.Second)
		if got := r.memory.Alert(idOf(usageShare, subject{other: "100"})); got != nil && len(got.Notices) == 0 {
			t.Errorf("an alert that was quiet for a day is kept: %+v", got)
		}
	})
}

// eventsFunc lists events.
type eventsFunc func(event.Query) (event.Page, error)

func (f eventsFunc) Events(_ context.Context, q event.Query) (event.Page, error) { return f(q) }

func TestProcessingMissing(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) {
			rules.ProcessingMissing = config.AlertProcessingRule{Enabled: true, Minutes: 30}
		})
		var page event.Page
		var away error
		r.deps.Events = eventsFunc(func(q event.Query) (event.Page, error) {
			if now := time.Now(); q.Account != testAccount || len(q.Processing) != 1 ||
				q.Processing[0] != event.ProcessingMissing || !q.Until.Equal(now.Add(-30*time.Minute)) || q.Limit != 100 {
				t.Errorf("asked for %+v", q)
			}
			return page, away
		})
		row := func(delivered time.Time) event.Summary {
			return event.Summary{Endpoint: testEndpoint, LastAttemptAt: delivered}
		}
		page.Rows = []event.Summary{row(time.Now().Add(-10 * time.Minute))} // received long ago, delivered lately
		r.passes(5 * time.Minute)
		r.wants(processingMissing)
		r.passes(20 * time.Minute)
		r.wants(processingMissing, "alert.processing.missing")
		page.Rows, page.More = nil, true
		r.passes(5 * time.Minute)
		page.More, away = false, event.ErrUnavailable
		r.passes(5 * time.Minute)
		r.wants(processingMissing, "alert.processing.missing") // nothing is known
		away = nil
		r.passes(2 * time.Minute)
		r.wants(processingMissing, "alert.processing.missing", "alert.processing.missing.resolved")
	})
}

func TestRecoveryEnds(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.Recovery.Enabled = true })
		job := func(name string, state config.RecoveryState, ago time.Duration) {
			r.memory.set(func(m *memory) {
				m.jobs = append(m.jobs, &config.Recovery{
					Meta: config.Meta{ID: name}, Endpoint: testEndpoint, State: state, FinishedAt: time.Now().Add(-ago)})
			})
		}
		job("rec_1", config.RecoveryCompleted, 25*time.Hour)
		r.passes(10 * time.Second)
		r.wants(recoveryEnded)
		job("rec_2", config.RecoveryStopped, time.Second)
		r.passes(time.Minute)
		r.wants(recoveryEnded, "alert.recovery.stopped")
		r.only(func(*config.AlertRules) {})
		job("rec_3", config.RecoveryCompleted, 0)
		r.passes(time.Minute)
		r.only(func(rules *config.AlertRules) { rules.Recovery.Enabled = true })
		r.passes(time.Minute)
		r.wants(recoveryEnded, "alert.recovery.stopped") // what ended while the rule was off is not told later
	})
}

// TestRestart reads again what was judged, in pieces of every size: nothing is announced twice and nothing is lost.
func TestRestartRepeatsNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKeyring(t)
		m, o := newMemory(k), &office{}
		m.settings.CooldownSeconds = 0
		first := rigOn(t, "a", k, m, o)
		first.only(func(rules *config.AlertRules) {
			rules.ConsecutiveFailures = config.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		var log []*stream.Record
		for i := range 40 {
			attempt := first.attempt(i%8 == 7)
			status := event.Retrying
			if attempt.OK {
				status = event.Delivered
			}
			e, err := first.ids.New(0)
			if err != nil {
				t.Fatal(err)
			}
			rec := (&event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: status, At: time.Now(),
				Attempt: attempt}).Record()
			rec.Topic, rec.Offset, rec.Timestamp = stream.Outcomes, int64(i), time.Now()
			log = append(log, rec)
			time.Sleep(time.Second)
		}
		read := func(r *rig, judged, to int) {
			t.Helper()
			for _, rec := range log[:judged] {
				if _, _, _, err := r.books[0].outcome(rec, r.span()); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.take(t.Context(), stretch{stream.Partition{Topic: stream.Outcomes}, log[judged:to]},
				map[stream.Partition]stream.Commit{}); err != nil {
				t.Fatal(err)
			}
		}
		read(first, 0, 20)
		for back := range 20 { // killed before it committed the last ones
			read(rigOn(t, "b", k, m, o), back, 20)
		}
		first.wants(consecutiveFailures, wave(2, true)...)
		for to := 21; to <= 40; to++ {
			read(rigOn(t, "c", k, m, o), to-7, to)
		}
		first.wants(consecutiveFailures, wave(5, false)...)
	})
}

// wave is what n rounds of failures announce; half of the last one when half is set.
func wave(n int, half bool) (types []string) {
	for range n {
		types = append(types, "alert.destination.failing", "alert.destination.failing.resolved")
	}
	if half {
		types = append(types, "alert.destination.failing")
	}
	return types
}

// While the configuration log is away nothing is judged, and what was bad then is told when it is back.
func TestConfigurationLogIsAway(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) {
			rules.ConsecutiveFailures = config.AlertThresholdRule{Enabled: true, Threshold: 3}
		})
		r.memory.set(func(m *memory) { m.down = true })
		back := time.AfterFunc(10*time.Second, func() { r.memory.set(func(m *memory) { m.down = false }) })
		defer back.Stop()
		start := time.Now()
		r.fails(3)
		if time.Since(start) < 10*time.Second {
			t.Error("went on without the configuration log")
		}
		r.wants(consecutiveFailures, "alert.destination.failing")
	})
}
