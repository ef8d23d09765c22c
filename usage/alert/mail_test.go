package alert

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// fireAlert fires an alert about a recovery job of that name, with a notice to all channels.
func (r *rig) fireAlert(name string) {
	r.t.Helper()
	about, to := subject{other: name}, targets(r.config.AlertSettings(), alerting.EndpointAlerts{Enabled: true})
	_, err := r.config.ChangeAlert(r.t.Context(), alertID(recoveryEnded, about), func(x *alerting.Alert) error {
		f := evaluation{rule: recoveryEnded, result: bad, value: "completed"}
		writeTransition(x, about, f, fire, logPosition{}, r.now())
		r.addNotice(x, f, fire, to, r.now())
		return nil
	})
	must.Do(r.t, err)
	r.notifier.wakeUp()
}

// fireTwice fires an alert with two notices to mail addresses, the first to one of them. It returns the first one's id.
func (r *rig) fireTwice(name string) (first string) {
	r.t.Helper()
	r.fireAlert(name)
	r.config.set(func(m *fakeConfig) {
		x := m.alerts[alertID(recoveryEnded, subject{other: name})]
		n := x.Notices[0]
		first = n.ID
		x.Notices[0].PendingTargets = []string{mailTarget + "a@example.com"}
		n.ID += "2"
		n.PendingTargets = []string{mailTarget + "a@example.com", mailTarget + "b@example.com"}
		x.Notices = append(x.Notices, n)
	})
	return first
}

// openNotices counts the notices that have open targets.
func (r *rig) openNotices() (n int) {
	for _, a := range r.config.Alerts(func(*alerting.Alert) bool { return true }) {
		n += len(a.Notices)
	}
	return n
}

// mailsTo returns the mails to an address, and how often each job is named in them.
func (o *fakeSender) mailsTo(address string) (all []sentMessage, named map[string]int) {
	named = map[string]int{}
	for _, p := range o.all() {
		if p.kind != notify.Email || !slices.Contains(p.to, address) {
			continue
		}
		all = append(all, p)
		for word := range strings.FieldsFuncSeq(p.m.Title+" "+p.m.Text,
			func(r rune) bool { return strings.ContainsRune(" :\n", r) }) {
			if strings.HasPrefix(word, "rec_") && (p.m.Type == "alert.digest" || strings.HasPrefix(p.m.Title,
				"[Alert] Recovery job "+word)) {
				named[word]++
			}
		}
	}
	return all, named
}

// wantNamedOnce checks that an address was notified of each job once: a mail of its own names the job twice, a digest
// once.
func wantNamedOnce(t *testing.T, o *fakeSender, address string, jobs int) {
	t.Helper()
	all, named := o.mailsTo(address)
	overrides := map[string]bool{}
	for _, p := range all {
		if p.m.Type != "alert.digest" {
			overrides[strings.TrimSuffix(strings.Fields(p.m.Title)[3], ":")] = true
		}
	}
	for i := range jobs {
		name := fmt.Sprintf("rec_%d", i)
		want := 1
		if overrides[name] {
			want = 2
		}
		is.Equal(t, named[name], want, "%s is named: times to %s", name, address)
	}
}

// Of 100 alerts at once 60 get a mail of their own and the other 40 are in one digest. All other channels get 100
// notices.
func TestMailsOverTheLimitBecomeADigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.config, r.sender)
		runNotifiers(t, r, other)
		for i := range 100 {
			[]*rig{r, other}[i%2].fireAlert(fmt.Sprintf("rec_%d", i)) // also notices that were leased to the dead node
		}
		time.Sleep(digestDelay - time.Second)
		if all, _ := r.sender.mailsTo("a@example.com"); len(all) != maxMails {
			t.Errorf("%d mails before the digest", len(all))
		}
		time.Sleep(3 * time.Second)
		all, _ := r.sender.mailsTo("a@example.com")
		if len(all) != maxMails+1 || r.openNotices() > 0 {
			t.Fatalf("%d mails, %d notices left over", len(all), r.openNotices())
		}
		digest := all[maxMails]
		if digest.m.Type != "alert.digest" || !strings.HasPrefix(digest.m.Title,
			"[Alert] 40 alerts since 2000-01-01 00:00:00 UTC") || !slices.Equal(digest.to, []string{"a@example.com",
			"b@example.com"}) ||
			strings.Count(digest.m.Text, "[Alert] Recovery job rec_") != 40 ||
			digest.m.Link != "https://relay.example.com/app" {
			t.Errorf("digest to %v: %+v", digest.to, digest.m)
		}
		wantNamedOnce(t, r.sender, "a@example.com", 100)
		is.Equal(t, len(r.sender.types(notify.Slack)), 100, "messages in Slack")
	})
}

// An alert fires every 10 seconds on two nodes, one of which dies: no hour has more than 60 mails and a digest every
// ten minutes, and no notice is lost.
func TestDigestsContinueWhenANodeDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.config, r.sender)
		stop := runNotifiers(t, r)
		runNotifiers(t, other)
		const jobs = 500
		for i := range jobs {
			if i == 166 {
				stop()
			}
			[]*rig{r, other}[i%2].fireAlert(fmt.Sprintf("rec_%d", i)) // also those that were leased to a dead node
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Hour)
		if r.openNotices() > 0 {
			t.Errorf("%d notices left over", r.openNotices())
		}
		wantNamedOnce(t, r.sender, "b@example.com", jobs)
		all, _ := r.sender.mailsTo("b@example.com")
		most := 0
		for i, p := range all {
			j := slices.IndexFunc(all, func(q sentMessage) bool { return p.at.Sub(q.at) < time.Hour })
			most = max(most, i-j+1)
		}
		if limit := maxMails + int(time.Hour/digestEvery); most > limit || len(all) < maxMails {
			t.Errorf("%d mails in an hour, want at most %d; %d in all", most, limit, len(all))
		}
	})
}

// A mail server that fails gets the digest once it works again, and a refused address delays no other.
func TestDigestIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var unavailable atomic.Bool
		r.sender.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			if unavailable.Load() && c.Kind == notify.Email && slices.Contains(c.To, "b@example.com") {
				return notify.Result{Error: event.CodeTimeout, Undelivered: map[string]bool{"b@example.com": true}}
			}
			return notify.Result{OK: true}
		}
		runNotifiers(t, r)
		for i := range maxMails {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(time.Second)
		unavailable.Store(true)
		const jobs = maxMails + 20
		for i := maxMails; i < jobs; i++ {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(25 * time.Minute) // three digests; the first has everything for a@
		wantNamedOnce(t, r.sender, "a@example.com", jobs)
		is.Equal(t, r.openNotices(), 20, "notices left over")
		unavailable.Store(false)
		time.Sleep(10 * time.Minute)
		if all, _ := r.sender.mailsTo("a@example.com"); len(all) != maxMails+1 || r.openNotices() > 0 {
			t.Errorf("%d mails to the address that took them all, %d notices left over", len(all), r.openNotices())
		}
		if all, _ := r.sender.mailsTo("b@example.com"); len(all) != maxMails+4 || strings.Count(all[len(all)-1].m.Text,
			"rec_") != 20 {
			t.Errorf("%d mails to the address that failed", len(all))
		}
	})
}

// The configuration log takes no record after a digest was sent: the node remembers who received it.
func TestDigestIsNotResentWhenRecordingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sender.SendFunc = func(_ notify.Channel, m notify.Message) notify.Result {
			if m.Type == "alert.digest" {
				r.config.set(func(m *fakeConfig) { m.unavailable = true })
			}
			return notify.Result{OK: true}
		}
		runNotifiers(t, r)
		const jobs = maxMails + 5
		for i := range jobs {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(5 * time.Minute)
		r.config.set(func(m *fakeConfig) { m.unavailable = false })
		time.Sleep(10 * time.Minute)
		if r.openNotices() > 0 {
			t.Errorf("%d notices left over", r.openNotices())
		}
		wantNamedOnce(t, r.sender, "a@example.com", jobs)
	})
}

// A digest leaves out a notice that is being sent, and the later ones of its alert: nobody reads "resolved" first.
func TestDigestKeepsTheOrderOfAnAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.fireTwice("rec_1")
		r.fireAlert("rec_2")
		r.config.set(func(m *fakeConfig) {
			n := m.alerts[alertID(recoveryEnded, subject{other: "rec_1"})].Notices
			n[1].PendingTargets = slices.Clone(n[0].PendingTargets)
		})
		r.spendBudget()
		time.Sleep(digestDelay)
		r.notifier.sending[first+"/"+string(notify.Email)] = true
		due := r.notifier.dueRequests()
		i := slices.IndexFunc(due, func(r request) bool { return r.digest })
		if i < 0 || len(due[i].parts) != 1 || due[i].parts[0].alert.ID != alertID(recoveryEnded, subject{other: "rec_2"}) {
			t.Errorf("in the digest: %+v", due)
		}
	})
}

// spendBudget lets the limit of mails be reached.
func (r *rig) spendBudget() {
	r.config.set(func(m *fakeConfig) {
		b := &alerting.AlertBudget{}
		for i := range maxMails {
			b.RecordSent(alerting.AlertSent{ID: fmt.Sprint("alrt_other", i), At: time.Now()})
		}
		m.alerts[alerting.AlertMailBudget] = &alerting.Alert{Meta: entity.Meta{ID: alerting.AlertMailBudget}, Budget: b}
	})
}

// A digest has a bounded length, however many alerts there are, and counts those that it does not list.
func TestDigestIsBounded(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	var all []part
	for i := range 1000 {
		x := &alerting.Alert{Meta: entity.Meta{ID: alertID(deliveryFailed, subject{endpoint: testEndpoint,
			destination: testDest})}, Endpoint: testEndpoint, Destination: testDest}
		all = append(all, part{x, alerting.AlertNotice{ID: fmt.Sprint(i), Type: "alert.delivery.failed", At: now,
			Merged: i % 2}, nil})
	}
	r.config.set(func(m *fakeConfig) { m.endpoint.Name = strings.Repeat("a\n", 50) })
	m := r.notifier.digestMessage(all)
	if n := strings.Count(m.Text, "\n"); n != maxDigestLines+2 || len(m.Text) > maxDigestLines*400 ||
		!strings.HasPrefix(m.Title, "[Alert] 1500 alerts") {
		t.Errorf("%q: %d lines, %d bytes", m.Title, n, len(m.Text))
	}
	if len(m.Facts) != 1 || m.Facts[0] != (notify.Fact{Name: "And 1200 more", Value: "A delivery failed for good"}) {
		t.Errorf("%+v", m.Facts)
	}
}
