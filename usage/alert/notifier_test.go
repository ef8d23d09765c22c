package alert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// runNotifiers runs the notifiers of nodes until the test, or stop, ends them.
func runNotifiers(t *testing.T, rigs ...*rig) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, r := range rigs {
		all.Go(func() { _ = r.notifier.run(ctx) })
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func failDelivery(r *rig) {
	r.enableOnly(func(rules *alerting.AlertRules) { rules.DeliveryFailed.Enabled = true })
	r.outcome(noEvent, event.Failed, event.NotRetryable, r.attempt(false))
}

// Every channel receives the firing and the resolved notice once, with the same id in all channels.
func TestNotifierSendsToEveryChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.config, r.sender)
		runNotifiers(t, r, other)
		failDelivery(r)
		synctest.Wait()
		time.Sleep(time.Hour)
		r.deliver(noEvent)
		time.Sleep(time.Hour)
		both := []string{"alert.delivery.failed", "alert.delivery.failed.resolved"}
		for _, kind := range []notify.Kind{notify.Email, notify.Slack, notify.Webhook} {
			is.List(t, r.sender.types(kind), both, "%s got", kind)
		}
		if p := r.sender.all(); p[0].m.ID != p[1].m.ID || p[0].m.ID != p[2].m.ID || p[0].m.ID == p[3].m.ID {
			t.Error("ids differ between channels, or not between messages")
		}
		m := r.sender.all()[0].m
		data := m.Data.(notify.AlertData)
		if *data.EndpointID != testEndpoint || *data.DestinationID != testDest || data.Rule != "delivery_failed" ||
			data.Value != "not_retryable" || data.Threshold != nil ||
			data.DashboardURL != "https://relay.example.com/app/endpoints/ep_1" {
			t.Errorf("data %+v", data)
		}
		if m.Title != "[Alert] A delivery failed for good: orders" || strings.Contains(m.Text+m.Title, "hush") {
			t.Errorf("title %q", m.Title)
		}
		if a := r.config.Alert(alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})); len(
			a.Notices) > 0 {
			t.Errorf("left over: %+v", a.Notices)
		}
	})
}

// A channel that fails receives the notices in order once it works again. The other channels are not delayed and
// receive nothing twice.
func TestNotifierRetriesFailedTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var unavailable atomic.Bool
		unavailable.Store(true)
		r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			switch {
			case c.Kind == notify.Slack && unavailable.Load():
				return notify.Result{Error: event.CodeTimeout}
			case c.Kind == notify.Email && unavailable.Load() && slices.Contains(c.To, "b@example.com"):
				return notify.Result{Error: notify.CodeSMTP, Undelivered: map[string]bool{"b@example.com": true}}
			}
			return notify.Result{OK: true}
		}
		runNotifiers(t, r)
		failDelivery(r)
		time.Sleep(10 * time.Minute)
		r.deliver(noEvent)
		time.Sleep(10 * time.Minute)
		both := []string{"alert.delivery.failed", "alert.delivery.failed.resolved"}
		is.List(t, r.sender.types(notify.Webhook), both, "while another channel fails, the webhook got")
		tries := r.sender.types(notify.Slack)
		if len(tries) < 6 || len(tries) > 9 || slices.Contains(tries, both[1]) {
			t.Errorf("%v in 20 minutes", tries)
		}
		unavailable.Store(false)
		time.Sleep(time.Hour)
		is.List(t, r.sender.types(notify.Webhook), both, "the webhook got")
		if got := r.sender.types(notify.Slack); !slices.Equal(got[len(tries):], both) {
			t.Errorf("the channel that failed got %v", got)
		}
		toA, toB := 0, 0
		for _, p := range r.sender.all() {
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

// A notice is retried for 24 hours. An address that was refused for good is dropped at once.
func TestNotifierGivesUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			if c.Kind == notify.Email {
				return notify.Result{Error: notify.CodeSMTP, Undelivered: map[string]bool{"a@example.com": false}}
			}
			return notify.Result{Error: event.CodeConnectionRefused}
		}
		runNotifiers(t, r)
		failDelivery(r)
		time.Sleep(26 * time.Hour)
		a := r.config.Alert(alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(a.Notices) > 0 || len(r.sender.types(notify.Email)) != 1 {
			t.Errorf("left over %+v, mails %d", a.Notices, len(r.sender.types(notify.Email)))
		}
		if tries := len(r.sender.types(notify.Slack)); tries < 28 || tries > 36 {
			t.Errorf("%d tries in a day", tries)
		}
	})
}

// The node with the lease dies before it sends, or after sending and before recording: exactly one other node sends the
// notice once the lease has expired.
func TestNoticeIsTakenOverWhenItsLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failDelivery(r) // this node runs no notifier
		r.notifier.isSender(t.Context())
		b, c := rigOn(t, "b", r.deps.Keyring, r.config, r.sender), rigOn(t, "c", r.deps.Keyring, r.config, r.sender)
		runNotifiers(t, b, c)
		time.Sleep(leaseTime - time.Second)
		if n := len(r.sender.all()); n > 0 {
			t.Errorf("%d messages before the lease expired", n)
		}
		time.Sleep(time.Minute)
		is.List(t, r.sender.types(notify.Slack), []string{"alert.delivery.failed"}, "after it")
	})
}

// The second notice of an alert is sent to those that have received the first, while that is being sent to others.
func TestNoticesOfAnAlertAreSentApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.fireTwice("rec_1")
		r.notifier.sending[first+"/"+string(notify.Email)] = true
		due := r.notifier.dueRequests()
		x := r.config.Alert(alertID(recoveryEnded, subject{other: "rec_1"}))
		if len(due) != 1 || due[0].parts[0].notice.ID != x.Notices[1].ID {
			t.Fatalf("due: %+v", due)
		}
		r.notifier.isSender(t.Context())
		r.notifier.deliver(t.Context(), due[0])
		if got := r.sender.all(); len(got) != 1 || !slices.Equal(got[0].to, []string{"b@example.com"}) {
			t.Errorf("sent %+v", got)
		}
	})
}

// The configuration log takes no record for a while after a notice was sent: this node does not send it again, and
// records the result later.
func TestNotifierDoesNotResendWhenRecordingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.SendFunc = func(notify.Channel, notify.Message) notify.Result {
			r.config.set(func(m *fakeConfig) { m.unavailable = true })
			return notify.Result{OK: true}
		}
		failDelivery(r)
		runNotifiers(t, r)
		time.Sleep(10 * time.Second)
		r.config.set(func(m *fakeConfig) { m.unavailable = false })
		r.sender.mu.Lock()
		r.sender.SendFunc = nil
		r.sender.mu.Unlock()
		time.Sleep(time.Minute)
		a := r.config.Alert(alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(r.sender.all()) != 3 || len(a.Notices) > 0 {
			t.Errorf("%d messages, left over %+v", len(r.sender.all()), a.Notices)
		}
	})
}

// A stop waits for the send in progress and records its result.
func TestNotifierStopWaitsForSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.SendFunc = func(notify.Channel, notify.Message) notify.Result {
			time.Sleep(3 * time.Second)
			return notify.Result{OK: true}
		}
		failDelivery(r)
		stop := runNotifiers(t, r)
		time.Sleep(time.Second)
		stop()
		a := r.config.Alert(alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest}))
		if len(a.Notices) > 0 || len(r.sender.all()) != 3 {
			t.Errorf("%d messages, left over %+v", len(r.sender.all()), a.Notices)
		}
	})
}

// While channels hang, a stop waits three seconds, however many alerts are due: deliveries end after them.
func TestNotifierStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.hangs = true
		failDelivery(r)
		r.config.set(func(m *fakeConfig) {
			fired := m.alerts[alertID(deliveryFailed, subject{endpoint: testEndpoint, destination: testDest})]
			for i := range 100 {
				x := *fired
				x.ID = fmt.Sprint(x.ID, i)
				x.Notices = slices.Clone(x.Notices)
				x.Notices[0].ID = fmt.Sprint(x.Notices[0].ID, i)
				m.alerts[x.ID] = &x
			}
		})
		stop := runNotifiers(t, r)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > stopTimeout {
			t.Errorf("the stop took %v", took)
		}
		if n := len(r.sender.all()); n > 3*channelSends {
			t.Errorf("%d messages were begun", n)
		}
	})
}

// Channels that were removed or disabled since the notice was written receive nothing.
func TestNotifierUsesCurrentChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failDelivery(r)
		r.config.set(func(m *fakeConfig) {
			m.settings.RemoveChannel("slack")
			m.settings.Channel("email").To = []string{"b@example.com"}
			m.settings.Channel("webhook").Enabled = false
		})
		runNotifiers(t, r)
		time.Sleep(time.Minute)
		if len(r.sender.all()) != 1 || !slices.Equal(r.sender.all()[0].to, []string{"b@example.com"}) {
			t.Errorf("%+v", r.sender.all())
		}
	})
}

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

// A backlog is read without pauses between fetches. A group that stays behind would keep the log from being trimmed.
func TestConsumeReadsABacklogWithoutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4_000
		_, conf := logInBubble(t)
		producer := must.Get(stream.NewProducer(conf, "test"))(t)
		defer producer.Close()
		r := newRig(t)
		r.partitions, r.deps.Stream = map[int32]*partitionState{}, conf
		for i := range events {
			e := must.Get(r.ids.New(0))(t)
			accepted := event.Event{ID: e, Endpoint: testEndpoint, Verdict: event.VerdictVerified, Body: make([]byte, 2_000)}
			producer.Produce(stream.Events, 0, accepted.Record(), func(_ *stream.Record, err error) {
				is.OK(t, err)
			})
			if i%50 != 0 {
				continue
			}
			// A fetch returns a batch whole, even if it is larger than its limit.
			must.Do(t, producer.Flush(t.Context()))
		}
		must.Do(t, producer.Flush(t.Context()))
		reader := must.Get(stream.NewReader(conf, "test"))(t)
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() {
			is.OK(t, r.Run(ctx))
		})
		time.Sleep(4 * time.Second) // joining takes some tenths of a second, and a commit is made every second
		done, err := reader.Committed(ctx, stream.AlertGroup, stream.Events)
		if n := done[stream.Partition{Topic: stream.Events}]; err != nil || n != events {
			t.Errorf("%d of %d were consumed, %v", n, events, err)
		}
	})
}
