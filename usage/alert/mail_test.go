package alert

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
)

// fires makes an alert of its own that tells a recovery job of that name, to all channels.
func (r *rig) fires(name string) {
	r.t.Helper()
	about, to := subject{other: name}, targets(r.memory.AlertSettings(), config.EndpointAlerts{Enabled: true})
	_, err := r.memory.ChangeAlert(r.t.Context(), idOf(recoveryEnded, about), func(x *config.Alert) error {
		r.apply(x, about, finding{recoveryEnded, bad, "completed", nil}, fire, true, to, place{}, r.now())
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.herald.look()
}

// open are the messages that somebody still waits for.
func (r *rig) open() (n int) {
	for _, a := range r.memory.Alerts(func(*config.Alert) bool { return true }) {
		n += len(a.Notices)
	}
	return n
}

// mails are what an address was sent, and how often each job is named in them.
func (o *office) mails(address string) (all []post, named map[string]int) {
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

// toldOnce checks that an address was told of each job once: its name stands twice in a mail of its own.
func toldOnce(t *testing.T, o *office, address string, jobs int) {
	t.Helper()
	all, named := o.mails(address)
	own := map[string]bool{}
	for _, p := range all {
		if p.m.Type != "alert.digest" {
			own[strings.TrimSuffix(strings.Fields(p.m.Title)[3], ":")] = true
		}
	}
	for i := range jobs {
		name := fmt.Sprintf("rec_%d", i)
		want := 1
		if own[name] {
			want = 2
		}
		if named[name] != want {
			t.Errorf("%s is named %d times to %s, want %d", name, named[name], address, want)
		}
	}
}

// Of a hundred alerts at once sixty are mails of their own, the others stand in one; every other channel gets all.
func TestDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.memory, r.office)
		announces(t, r, other)
		for i := range 100 {
			[]*rig{r, other}[i%2].fires(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(digestDelay - time.Second)
		if all, _ := r.office.mails("a@example.com"); len(all) != maxMails {
			t.Errorf("%d mails before the digest", len(all))
		}
		time.Sleep(3 * time.Second)
		all, _ := r.office.mails("a@example.com")
		if len(all) != maxMails+1 || r.open() > 0 {
			t.Fatalf("%d mails, %d messages left over", len(all), r.open())
		}
		digest := all[maxMails]
		if digest.m.Type != "alert.digest" || !strings.HasPrefix(digest.m.Title,
			"[Alert] 40 alerts since 2000-01-01 00:00:00 UTC") || !slices.Equal(digest.to, []string{"a@example.com",
			"b@example.com"}) ||
			strings.Count(digest.m.Text, "[Alert] Recovery job rec_") != 40 ||
			digest.m.Link != "https://relay.example.com/app" {
			t.Errorf("digest to %v: %+v", digest.to, digest.m)
		}
		toldOnce(t, r.office, "a@example.com", 100)
		if n := len(r.office.types(notify.Slack)); n != 100 {
			t.Errorf("%d messages in Slack", n)
		}
	})
}

// An alert every ten seconds, on two nodes of which one dies: of no hour more than sixty mails and a digest each ten
// minutes, and nothing is lost.
func TestDigestsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.memory, r.office)
		stop := announces(t, r)
		announces(t, other)
		const jobs = 500
		for i := range jobs {
			if i == 166 {
				stop()
			}
			[]*rig{r, other}[i%2].fires(fmt.Sprintf("rec_%d", i)) // also those that a dead node claimed
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Hour)
		if r.open() > 0 {
			t.Errorf("%d messages left over", r.open())
		}
		toldOnce(t, r.office, "b@example.com", jobs)
		all, _ := r.office.mails("b@example.com")
		most := 0
		for i, p := range all {
			j := slices.IndexFunc(all, func(q post) bool { return p.at.Sub(q.at) < time.Hour })
			most = max(most, i-j+1)
		}
		if limit := maxMails + int(time.Hour/digestEvery); most > limit || len(all) < maxMails {
			t.Errorf("%d mails in an hour, want at most %d; %d in all", most, limit, len(all))
		}
	})
}

// A mail server that is away gets the digest when it is back, and an address that refuses holds up nobody.
func TestDigestIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var away atomic.Bool
		r.office.SendFunc = func(c notify.Channel, _ notify.Message) notify.Result {
			if away.Load() && c.Kind == notify.Email && slices.Contains(c.To, "b@example.com") {
				return notify.Result{Error: event.CodeTimeout, Refused: map[string]bool{"b@example.com": true}}
			}
			return notify.Result{OK: true}
		}
		announces(t, r)
		for i := range maxMails {
			r.fires(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(time.Second)
		away.Store(true)
		const jobs = maxMails + 20
		for i := maxMails; i < jobs; i++ {
			r.fires(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(25 * time.Minute) // three digests, of which one has all that a@ wants
		toldOnce(t, r.office, "a@example.com", jobs)
		if r.open() != 20 {
			t.Errorf("%d messages left over", r.open())
		}
		away.Store(false)
		time.Sleep(10 * time.Minute)
		if all, _ := r.office.mails("a@example.com"); len(all) != maxMails+1 || r.open() > 0 {
			t.Errorf("%d mails to who took them all, %d messages left over", len(all), r.open())
		}
		if all, _ := r.office.mails("b@example.com"); len(all) != maxMails+4 || strings.Count(all[len(all)-1].m.Text,
			"rec_") != 20 {
			t.Errorf("%d mails to who was away", len(all))
		}
	})
}

// While the configuration log takes no record after a digest, it is remembered who has it.
func TestDigestIsRememberedWhenTheLogIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.office.SendFunc = func(_ notify.Channel, m notify.Message) notify.Result {
			if m.Type == "alert.digest" {
				r.memory.set(func(m *memory) { m.down = true })
			}
			return notify.Result{OK: true}
		}
		announces(t, r)
		const jobs = maxMails + 5
		for i := range jobs {
			r.fires(fmt.Sprintf("rec_%d", i))
		}
		time.Sleep(5 * time.Minute)
		r.memory.set(func(m *memory) { m.down = false })
		time.Sleep(10 * time.Minute)
		if r.open() > 0 {
			t.Errorf("%d messages left over", r.open())
		}
		toldOnce(t, r.office, "a@example.com", jobs)
	})
}

// However many alerts there are, a digest has a bounded length, and counts what it does not list.
func TestDigestIsBounded(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	var all []waiting
	for i := range 1000 {
		x := &config.Alert{Meta: config.Meta{ID: idOf(deliveryFailed, subject{endpoint: testEndpoint,
			destination: testDest})}, Endpoint: testEndpoint, Destination: testDest}
		all = append(all, waiting{x, config.AlertNotice{ID: fmt.Sprint(i), Type: "alert.delivery.failed", At: now,
			Merged: i % 2}, nil})
	}
	r.memory.set(func(m *memory) { m.endpoint.Name = strings.Repeat("a\n", 50) })
	m := r.herald.digestMessage(all)
	if n := strings.Count(m.Text, "\n"); n != maxDigestLines+2 || len(m.Text) > maxDigestLines*400 ||
		!strings.HasPrefix(m.Title, "[Alert] 1500 alerts") {
		t.Errorf("%q: %d lines, %d bytes", m.Title, n, len(m.Text))
	}
	if len(m.Facts) != 1 || m.Facts[0] != (notify.Fact{Name: "And 1200 more", Value: "A delivery failed for good"}) {
		t.Errorf("%+v", m.Facts)
	}
}
