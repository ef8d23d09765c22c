package alert

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
)

// announces runs the heralds of nodes until the test, or stop, ends them.
func announces(t *testing.T, rigs ...*rig) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, r := range rigs {
		all.Go(func() { _ = r.herald.run(ctx) })
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func failing(r *rig) {
	r.only(func(rules *config.AlertRules) { rules.DeliveryFailed.Enabled = true })
	r.outcome(noEvent, event.Failed, event.NotRetryable, r.attempt(false))
}

// Every channel gets the beginning and the end, once, with the same id in all of them.
func TestAnnouncerTellsEveryChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.memory, r.office)
		announces(t, r, other)
		failing(r)
		synctest.Wait()
		time.Sleep(time.Hour)
		r.delivers(noEvent)
		time.Sleep(time.Hour)
		both := []string{"alert.delivery.failed", "alert.delivery.failed.resolved"}
		for _, kind := range []notify.Kind{notify.Email, notify.Slack, notify.Webhook} {
			if got := r.office.types(kind); !slices.Equal(got, both) {
				t.Errorf("%s got %v", kind, got)
			}
		}
		if p := r.office.all(); p[0].m.ID != p[1].m.ID || p[0].m.ID != p[2].m.ID || p[0].m.ID == p[3].m.ID {
			t.Error("ids differ between channels, or not between messages")
		}
		m := r.office.all()[0].m
		data := m.Data.(notify.AlertData)
		if *data.EndpointID != testEndpoint || *data.DestinationID != testDest || data.Rule != "delivery_failed" ||
			data.Value != "not_retryable" || data.Threshold != nil ||
			data.DashboardURL != "https://relay.example.com/app/endpoints/ep_1" {
			t.Errorf("data %+v", data)
		}
		if m.Title != "[Alert] A delivery failed for good: orders" || strings.Contains(m.Text+m.Title, "hush") {
			t.Errorf("title %q", m.Title)
		}
		if a := r.memory.Alert(idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})); len(
			a.Notices) > 0 {
			t.Errorf("left over: %+v", a.Notices)
		}
	})
}

// A channel that is away gets it when it is back, in order; the others wait for nothing and do not get it again.
func TestAnnouncerRepeatsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var away atomic.Bool
		away.Store(true)
		r.office.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			switch {
			case c.Kind == notify.Slack && away.Load():
				return notify.Result{Error: event.CodeTimeout}
			case c.Kind == notify.Email && away.Load() && slices.Contains(c.To, "b@example.com"):
				return notify.Result{Error: notify.CodeSMTP, Refused: map[string]bool{"b@example.com": true}}
			}
			return notify.Result{OK: true}
		}
		announces(t, r)
		failing(r)
		time.Sleep(10 * time.Minute)
		r.delivers(noEvent)
		time.Sleep(10 * time.Minute)
		both := []string{"alert.delivery.failed", "alert.delivery.failed.resolved"}
		if got := r.office.types(notify.Webhook); !slices.Equal(got, both) {
			t.Errorf("while another channel is away, the webhook got %v", got)
		}
		tries := r.office.types(notify.Slack)
		if len(tries) < 6 || len(tries) > 9 || slices.Contains(tries, both[1]) {
			t.Errorf("%v in 20 minutes", tries)
		}
		away.Store(false)
		time.Sleep(time.Hour)
		if got := r.office.types(notify.Webhook); !slices.Equal(got, both) {
			t.Errorf("the webhook got %v", got)
		}
		if got := r.office.types(notify.Slack); !slices.Equal(got[len(tries):], both) {
			t.Errorf("what was away got %v", got)
		}
		toA, toB := 0, 0
		for _, p := range r.office.all() {
			if p.kind == notify.Email && slices.Contains(p.to, "a@example.com") {
				toA++
			}
			if p.kind == notify.Email && slices.Contains(p.to, "b@example.com") {
				toB++
			}
		}
		if toA != 2 || toB < 8 {
			t.Errorf("%d mails to the address that takes all, %d to the other", toA, toB)
		}
	})
}

// A day is long enough; an address that will never take mail is left out at once.
func TestAnnouncerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.office.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			if c.Kind == notify.Email {
				return notify.Result{Error: notify.CodeSMTP, Refused: map[string]bool{"a@example.com": false}}
			}
			return notify.Result{Error: event.CodeConnectionRefused}
		}
		announces(t, r)
		failing(r)
		time.Sleep(26 * time.Hour)
		a := r.memory.Alert(idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(a.Notices) > 0 || len(r.office.types(notify.Email)) != 1 {
			t.Errorf("left over %+v, mails %d", a.Notices, len(r.office.types(notify.Email)))
		}
		if tries := len(r.office.types(notify.Slack)); tries < 28 || tries > 36 {
			t.Errorf("%d tries in a day", tries)
		}
	})
}

// Killed before it sent, or after it sent and before it said so: another node takes the message over when the claim
// has run out, and does so alone.
func TestAnnouncerIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failing(r) // this node announces nothing
		b, c := rigOn(t, "b", r.deps.Keyring, r.memory, r.office), rigOn(t, "c", r.deps.Keyring, r.memory, r.office)
		announces(t, b, c)
		time.Sleep(claim - time.Second)
		if n := len(r.office.all()); n > 0 {
			t.Errorf("%d messages while the claim held", n)
		}
		time.Sleep(time.Minute)
		if got := r.office.types(notify.Slack); !slices.Equal(got, []string{"alert.delivery.failed"}) {
			t.Errorf("after it: %v", got)
		}
	})
}

// A node that comes to a message late sends it to those only who have not got it from another one meanwhile.
func TestAnnouncerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failing(r)
		name := idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})
		seen := r.memory.Alert(name)
		r.memory.set(func(m *memory) {
			n := &m.alerts[name].Notices[0]
			n.PendingTargets, n.LeaseNode, n.Tries, n.NextAt, n.LeaseUntil = []string{string(notify.Slack)}, "b", 1,
				n.NextAt.Add(firstPause),
				n.NextAt.Add(firstPause+claim)
		})
		time.Sleep(firstPause + claim + time.Second)
		r.herald.carry(t.Context(), seen)
		if got := r.office.all(); len(got) != 1 || got[0].kind != notify.Slack {
			t.Errorf("sent %+v", got)
		}
	})
}

// The configuration log takes no record for a while after the message went out: it is not sent again by this node,
// and the word follows.
func TestAnnouncerRemembersWhatItSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.office.SendFunc = func(notify.Channel, notify.Message) notify.Result {
			r.memory.set(func(m *memory) { m.down = true })
			return notify.Result{OK: true}
		}
		failing(r)
		announces(t, r)
		time.Sleep(10 * time.Second)
		r.memory.set(func(m *memory) { m.down = false })
		r.office.mu.Lock()
		r.office.SendFunc = nil
		r.office.mu.Unlock()
		time.Sleep(time.Minute)
		a := r.memory.Alert(idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(r.office.all()) != 3 || len(a.Notices) > 0 {
			t.Errorf("%d messages, left over %+v", len(r.office.all()), a.Notices)
		}
	})
}

// A stop waits for the try that is under way and says what came of it.
func TestAnnouncerStopsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.office.SendFunc = func(notify.Channel, notify.Message) notify.Result {
			time.Sleep(5 * time.Second)
			return notify.Result{OK: true}
		}
		failing(r)
		stop := announces(t, r)
		time.Sleep(time.Second)
		stop()
		a := r.memory.Alert(idOf(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(a.Notices) > 0 || len(r.office.all()) != 3 {
			t.Errorf("%d messages, left over %+v", len(r.office.all()), a.Notices)
		}
	})
}

// Channels that were removed or switched off meanwhile get nothing.
func TestAnnouncerAsksForPresentChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failing(r)
		r.memory.set(func(m *memory) {
			m.settings.RemoveChannel("slack")
			m.settings.Channel("email").To = []string{"b@example.com"}
			m.settings.Channel("webhook").Enabled = false
		})
		announces(t, r)
		time.Sleep(time.Minute)
		if len(r.office.all()) != 1 || !slices.Equal(r.office.all()[0].to, []string{"b@example.com"}) {
			t.Errorf("%+v", r.office.all())
		}
	})
}
