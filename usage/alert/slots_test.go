package alert

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
)

// slowWebhook makes the webhook hang until its timeout and Slack answer after 200 ms. It returns the highest number of
// sends through one channel at the same time.
func slowWebhook(r *rig) *atomic.Int64 {
	var most atomic.Int64
	running := map[notify.Kind]*atomic.Int64{notify.Email: {}, notify.Slack: {}, notify.Webhook: {}}
	r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
		now := running[c.Kind].Add(1)
		defer running[c.Kind].Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		switch c.Kind {
		case notify.Webhook:
			time.Sleep(notify.Timeout)
			return notify.Result{Error: event.CodeTimeout}
		case notify.Slack:
			time.Sleep(200 * time.Millisecond)
		}
		return notify.Result{OK: true}
	}
	return &most
}

// occupy takes slots of a channel, and returns a function that gives one back.
func (r *rig) occupy(channel notify.Kind, slots int) (free func()) {
	change := func(n int) {
		r.notifier.mu.Lock()
		defer r.notifier.mu.Unlock()
		r.notifier.running[string(channel)] += n
	}
	change(slots)
	return func() { change(-1) }
}

// slackTimes returns when Slack received each message; a message that it received twice is an error.
func slackTimes(t *testing.T, o *fakeSender) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	for _, p := range o.all() {
		if p.kind != notify.Slack {
			continue
		}
		if _, twice := times[p.m.ID]; twice {
			t.Errorf("Slack received %s twice", p.m.ID)
		}
		times[p.m.ID] = p.at
	}
	return times
}

// A webhook that never answers delays no message in Slack by more than two seconds, not even while hundreds of notices
// wait for the webhook. It gets eight requests at a time, and no message is sent twice to a channel that takes it.
func TestSlowChannelDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		most := slowWebhook(r)
		runNotifiers(t, r)
		for i := range 48 {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond)
		is.Equal(t, len(slackTimes(t, r.sender)), 48, "of 48 messages in Slack after 2 s")
		for i := range 300 {
			r.fireAlert(fmt.Sprintf("rec_1%03d", i))
		}
		time.Sleep(30 * time.Second) // Slack takes 40 in a second
		is.Equal(t, len(slackTimes(t, r.sender)), 348, "of 348 messages in Slack")
		for i := range 20 {
			r.fireAlert(fmt.Sprintf("rec_2%03d", i))
			began := time.Now()
			time.Sleep(2 * time.Second)
			if n := len(slackTimes(t, r.sender)); n != 349+i {
				t.Errorf("%d messages in Slack %v after alert %d", n, time.Since(began), i)
			}
		}
		is.Equal(t, most.Load(), channelSends, "sends through a channel at the same time")
	})
}

// Once the webhook answers, it receives every notice that waited for a slot, once, and "firing" before "resolved".
func TestWaitingNoticesAreSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.hangs = true
		runNotifiers(t, r)
		failDelivery(r)
		for i := range 40 {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(5 * time.Second)
		r.deliver(noEvent)
		time.Sleep(2 * time.Minute)
		r.sender.mu.Lock()
		r.sender.hangs, r.sender.messages = false, nil
		r.sender.mu.Unlock()
		time.Sleep(2 * time.Hour)
		got := r.sender.types(notify.Webhook)
		firing := slices.Index(got, "alert.delivery.failed")
		if len(got) != 42 || firing < 0 || firing > slices.Index(got, "alert.delivery.failed.resolved") ||
			r.openNotices() > 0 {
			t.Errorf("%d notices left over, %d messages: %v", r.openNotices(), len(got), got)
		}
		is.Equal(t, len(slackTimes(t, r.sender)), 42, "messages in Slack")
	})
}

// A notice stays due for a channel without a slot: it is sent there as soon as there is one, however often another
// channel has failed meanwhile. That channel is not tried more often than alone.
func TestNoticeStaysDueForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		free := r.occupy(notify.Slack, channelSends)
		runNotifiers(t, r)
		r.fireAlert("rec_1")
		time.Sleep(2 * pollEvery)
		is.Equal(t, len(r.sender.all()), 2, "messages without a slot of Slack")
		free()
		time.Sleep(pollEvery + time.Millisecond)
		if n := len(slackTimes(t, r.sender)); n != 1 || r.openNotices() > 0 {
			t.Errorf("%d messages in Slack, %d notices left over", n, r.openNotices())
		}
		free = r.occupy(notify.Slack, 1)
		r.sender.mu.Lock()
		r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			return notify.Result{OK: c.Kind == notify.Slack, Error: event.CodeConnectionRefused}
		}
		r.sender.mu.Unlock()
		r.fireAlert("rec_2")
		webhooks := len(r.sender.types(notify.Webhook))
		time.Sleep(time.Hour)
		if n := len(r.sender.types(notify.Webhook)) - webhooks; n < 8 || n > 9 {
			t.Errorf("%d requests to the webhook in an hour", n)
		}
		free()
		time.Sleep(pollEvery + time.Millisecond)
		is.Equal(t, len(slackTimes(t, r.sender)), 2, "messages in Slack")
	})
}

// A channel that hangs delays the next notice of the same alert in the others by two seconds at most. It gets the
// notices in order itself, and no channel gets one twice.
func TestSlowChannelDelaysNotTheSameAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		slowWebhook(r)
		runNotifiers(t, r)
		failDelivery(r)
		time.Sleep(time.Second)
		r.deliver(noEvent)
		time.Sleep(2 * time.Second)
		is.Equal(t, len(slackTimes(t, r.sender)), 2, "messages in Slack")
		both := []string{"alert.delivery.failed", "alert.delivery.failed.resolved"}
		is.List(t, r.sender.types(notify.Webhook), both[:1], "the webhook got")
		time.Sleep(notify.Timeout)
		r.sender.mu.Lock()
		r.sender.SendFunc, r.sender.messages = nil, slices.DeleteFunc(r.sender.messages, func(m sentMessage) bool {
			return m.kind == notify.Webhook // failed
		})
		r.sender.mu.Unlock()
		time.Sleep(time.Hour)
		for _, kind := range []notify.Kind{notify.Email, notify.Slack, notify.Webhook} {
			is.List(t, r.sender.types(kind), both, "%s got", kind)
		}
		if n := r.openNotices(); n > 0 {
			t.Errorf("%d notices left over", n)
		}
		r.notifier.mu.Lock()
		defer r.notifier.mu.Unlock()
		if len(r.notifier.sending) > 0 {
			t.Errorf("sending %v", r.notifier.sending)
		}
	})
}

// A digest uses a slot of the mail channel: a mail server gets eight messages at a time, whoever sends them.
func TestDigestWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spendBudget()
		free := r.occupy(notify.Email, channelSends)
		runNotifiers(t, r)
		r.fireAlert("rec_1")
		time.Sleep(2 * digestDelay)
		if n := len(r.sender.types(notify.Email)); n > 0 {
			t.Errorf("%d mails without a slot", n)
		}
		free()
		time.Sleep(pollEvery + time.Millisecond)
		r.notifier.mu.Lock()
		defer r.notifier.mu.Unlock()
		taken := r.notifier.running[string(notify.Email)]
		if n := len(r.sender.types(notify.Email)); n != 1 || taken != channelSends-1 {
			t.Errorf("%d mails, %d slots taken", n, taken)
		}
	})
}

// A stop does not wait for a send that ignores its context.
func TestNotifierStopIgnoresStuckSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stuck, free := context.WithCancel(t.Context())
		defer free()
		r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			<-stuck.Done()
			return notify.Result{OK: true}
		}
		stop := runNotifiers(t, r)
		for i := range 100 {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		stop()
		is.Equal(t, time.Since(began), stopTimeout+recordTimeout, "the stop took")
	})
}

// The alert that is due the longest takes the next slot, in whatever order the configuration has them.
func TestLongestDueAlertIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		slowWebhook(r)
		for i := range 20 {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
			time.Sleep(time.Second)
		}
		due := r.notifier.dueRequests()
		for i, x := range due {
			if i > 0 && x.parts[0].notice.NextAt.Before(due[i-1].parts[0].notice.NextAt) {
				t.Fatalf("request %d of %d is due before the one ahead of it", i, len(due))
			}
		}
		is.Equal(t, len(due), 3*20, "requests are due")
	})
}
