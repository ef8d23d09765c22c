package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
)

// announce announces a transition of a finding as config.DecideFinding does, and reports whether there is a message.
func (r *rig) announce(f *leak.Finding, t finding.Transition) bool {
	r.t.Helper()
	r.config.set(func(m *fakeConfig) {
		if m.findings == nil {
			m.findings = map[string]*leak.Finding{}
		}
		m.findings[f.ID] = f
	})
	n := r.Announce(t)(f, r.config.Alert)
	if n == nil {
		return false
	}
	if _, err := r.config.ChangeAlert(r.t.Context(), n.Alert, func(x *alerting.Alert) error {
		n.Write(x)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return true
}

func newFinding(alter func(*leak.Finding)) *leak.Finding {
	f := &leak.Finding{Meta: entity.Meta{ID: id.Random(finding.Prefix)}, Kind: finding.Secret,
		Rule: "stripe-secret-live", Severity: finding.High, Status: finding.Open, Masked: "sk_live_***abcd",
		First: leak.FirstHit{Source: finding.Drain, Sender: "drn_1", Label: "shop"}}
	if alter != nil {
		alter(f)
	}
	return f
}

// At most 20 findings an hour have a message of their own, whichever nodes announce them. The others are counted in one
// digest, and no finding is counted twice.
func TestManyFindingsBecomeADigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := rigOn(t, "b", r.deps.Keyring, r.config, r.sender)
		runNotifiers(t, r, other)
		total := func() (singles, many, counted int) {
			for _, p := range r.sender.all() {
				switch {
				case p.kind != notify.Webhook:
				case p.m.Type == "alert.finding.many":
					many, counted = many+1, counted+p.m.Data.(notify.AlertData).Count
				case p.m.Type == "alert.finding.opened":
					singles++
				}
			}
			return singles, many, counted
		}
		want := func(what string, singles, many, counted int) {
			t.Helper()
			if s, m, c := total(); s != singles || m != many || c != counted {
				t.Errorf("%s: %d messages, %d digests of %d findings; want %d, %d, %d", what, s, m, c, singles, many, counted)
			}
		}
		for i := range 1001 {
			[]*rig{r, other}[i%2].announce(newFinding(nil), finding.Opened)
		}
		time.Sleep(10 * time.Second) // two notifiers that want the same message try again
		want("at once", 15, 0, 0)
		time.Sleep(10 * time.Minute)
		want("after the digest", 15, 1, 986)
		for range 5 {
			r.announce(newFinding(nil), finding.Opened)
		}
		time.Sleep(45 * time.Minute)
		want("before the hour is over", 15, 1, 986)
		time.Sleep(10 * time.Minute)
		want("the second digest", 15, 2, 991)
		for range 21 {
			other.announce(newFinding(nil), finding.Opened)
		}
		time.Sleep(2 * time.Hour)
		want("the next hour", 30, 3, 997)
	})
}

// Made-up findings leave messages for those of our own API keys, critical ones and floods; and the digest names the
// worst findings that it counts, in a bounded message.
func TestUrgentFindingsHaveSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		runNotifiers(t, r)
		for i := range 1000 {
			r.announce(newFinding(func(f *leak.Finding) {
				f.Rule, f.First.Label = fmt.Sprint("rule-", i%20), fmt.Sprint("app-", i)
			}), finding.Opened)
		}
		for _, alter := range []func(*leak.Finding){
			func(f *leak.Finding) { f.KeyID = "key_1" },
			func(f *leak.Finding) { f.Severity = finding.Critical },
			func(f *leak.Finding) { f.Rule = finding.RuleFlood },
			func(f *leak.Finding) { f.Rule = finding.RuleFlood },
			func(f *leak.Finding) { f.KeyID = "key_2" },
		} {
			f := newFinding(alter)
			transition := finding.Opened
			if f.Rule == finding.RuleFlood {
				transition = finding.Continued
			}
			r.announce(f, transition)
		}
		for range 3 {
			r.announce(newFinding(func(f *leak.Finding) { f.Severity, f.First.Label = finding.Critical, "shop" }),
				finding.Opened)
		}
		time.Sleep(10 * time.Minute)
		opened, named := 0, ""
		for _, p := range r.sender.all() {
			switch {
			case p.kind != notify.Webhook:
			case p.m.Type == "alert.finding.opened":
				opened++
			case p.m.Type == "alert.finding.many":
				named = fmt.Sprint(p.m.Facts)
				if len(p.m.Facts) > maxNamedGroups+2 {
					t.Errorf("%d facts", len(p.m.Facts))
				}
			}
		}
		is.Equal(t, opened, findingSlots, "findings have a message of their own")
		if !strings.HasPrefix(named, "[{stripe-secret-live, critical, first in shop 3} {rule-") {
			t.Errorf("the digest names %s", named)
		}
		is.Equal(t, strings.Count(named, "rule-"), maxNamedGroups-1, "the digest names: rules: %s", named)
	})
}

// A message says which finding it is about, and who is notified depends on the rule.
func TestMessagesOfFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		runNotifiers(t, r)
		f := newFinding(nil)
		r.announce(f, finding.Opened)
		time.Sleep(time.Minute)
		m := r.sender.all()[0].m
		data := m.Data.(notify.AlertData)
		link := "https://relay.example.com/app/findings/" + f.ID
		if m.Title != "[Alert] A leaked secret was found: stripe-secret-live" || m.Link != link || data.FindingID != f.ID ||
			data.Rule != "finding" || data.Value != "high" || data.Threshold != "high" || data.DashboardURL != link {
			t.Errorf("message %+v", m)
		}
		facts := fmt.Sprint(m.Facts)
		for _, want := range []string{"sk_live_***abcd", "drain drn_1", "shop"} {
			is.Has(t, facts, want, "the facts lack %s", want)
		}
		r.announce(f, finding.Reopened)
		time.Sleep(time.Minute)
		want := []string{"alert.finding.opened", "alert.finding.reopened"}
		is.List(t, r.sender.types(notify.Slack), want, "sent")
		is.Equal(t, len(r.config.AlertsWithNotices(nil)), 0, "alerts have notices left")

		medium := newFinding(func(f *leak.Finding) { f.Severity = finding.Medium })
		if r.announce(medium, finding.Opened) {
			t.Error("announced below the severity of the rule")
		}
		r.config.set(func(m *fakeConfig) { m.settings.Rules.Finding.MinSeverity = "low" })
		if !r.announce(medium, finding.Opened) {
			t.Error("not announced at the severity of the rule")
		}
		r.config.set(func(m *fakeConfig) { m.settings.Rules.Finding.Enabled = false })
		if r.announce(f, finding.Opened) {
			t.Error("announced although the rule is off")
		}
		r.config.set(func(m *fakeConfig) { m.settings.Rules.Finding.Enabled, m.settings.Channels = true, nil })
		if r.announce(f, finding.Opened) {
			t.Error("announced without channels")
		}
	})
}

// Unverified reports have one message an hour and sender, a tripwire one in the cooldown. Neither takes a slot.
func TestMessagesOutsideTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		unverified := func(sender string) bool {
			return r.announce(newFinding(func(f *leak.Finding) {
				f.Unverified, f.First.Sender = true, sender
			}), finding.Opened)
		}
		tripwire := func() bool {
			return r.announce(newFinding(func(f *leak.Finding) {
				f.Kind, f.Severity, f.TripwireID = finding.Tripwire, finding.Critical, "trw_1"
				f.First = leak.FirstHit{Source: finding.FromTripwire, Sender: "trw_1"}
			}), finding.Reopened)
		}
		if !unverified("dsn_1") || unverified("dsn_1") || !unverified("dsn_2") {
			t.Error("unverified reports")
		}
		if !tripwire() || tripwire() {
			t.Error("a tripwire")
		}
		time.Sleep(alerting.DefaultAlertCooldown * time.Second)
		if !tripwire() || unverified("dsn_1") {
			t.Error("after the cooldown")
		}
		time.Sleep(time.Hour)
		if !unverified("dsn_1") {
			t.Error("after an hour")
		}
		for i := range findingSlots {
			if name := fmt.Sprintf("finding/%02d", i); r.config.Alert(name) != nil {
				t.Errorf("%s is taken", name)
			}
		}
		n := r.config.Alert("tripwire.tripped/trw_1").Notices[0]
		if n.Type != "alert.tripwire.tripped" || n.Tripwire != "trw_1" {
			t.Errorf("notice %+v", n)
		}
	})
}

// The limit on mails does not send the digest of findings before it is due: it would miss those that are counted later.
func TestDigestOfFindingsGathersWithoutMails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range maxMails {
			r.fireAlert(fmt.Sprintf("rec_%d", i))
		}
		runNotifiers(t, r)
		synctest.Wait()
		for range findingSlots - urgentSlots + 5 {
			r.announce(newFinding(nil), finding.Opened)
		}
		time.Sleep(90 * time.Second)
		if n := r.config.Alert(findingDigest).Notices; len(n) != 1 || !slices.ContainsFunc(n[0].PendingTargets, isMail) {
			t.Fatalf("the digest has gone before it was due: %+v", n)
		}
		r.announce(newFinding(nil), finding.Opened)
		time.Sleep(time.Hour)
		mails, _ := r.sender.mailsTo("a@example.com")
		if !slices.ContainsFunc(mails, func(p sentMessage) bool { return strings.Contains(p.m.Text, "6 more findings") }) {
			t.Error("no mail counts the findings")
		}
		is.Equal(t, len(r.config.AlertsWithNotices(nil)), 0, "alerts have notices left")
	})
}
