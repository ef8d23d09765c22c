package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// openFinding creates a finding as a first hit does, with one message.
func (n *testNode) openFinding(ctx context.Context, f leak.Finding) (opened bool, err error) {
	_, _, err = n.DecideFinding(ctx, f.ID, func(old *leak.Finding) (*leak.Finding, Announcer) {
		if opened = old == nil; !opened {
			return nil, nil
		}
		next := f
		return &next, func(f *leak.Finding, alert func(string) *alerting.Alert) *FindingNotice {
			return &FindingNotice{"finding/00", func(a *alerting.Alert) {
				a.Notices = append(a.Notices, alerting.AlertNotice{ID: f.ID, PendingTargets: []string{"x"}})
			}}
		}
	})
	return opened, err
}

func newFinding() leak.Finding {
	return leak.Finding{Meta: entity.Meta{ID: id.Random(finding.Prefix)}, Kind: finding.Secret, Rule: "r",
		Severity: finding.High,
		Status:   finding.Open, OpenedAt: time.Now(), Fingerprint: "fpr_1"}
}

// A finding and the message about it are one record: of several nodes one writes both.
func TestFindingIsOpenedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		all := make([]leak.Finding, 10)
		for i := range all {
			all[i] = newFinding()
		}
		outbox := a.View().Len(conflog.KindOutbox)
		var wg sync.WaitGroup
		var mu sync.Mutex
		opened := 0
		for _, n := range []*testNode{a, b, a, b} {
			wg.Go(func() {
				for _, f := range all {
					first, err := n.openFinding(t.Context(), f)
					for errors.Is(err, ErrConflict) { // all messages are in one alert
						first, err = n.openFinding(t.Context(), f)
					}
					is.OK(t, err)
					if first {
						mu.Lock()
						opened++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		noError(t, a.Sync(t.Context()))
		notices := a.Alert("finding/00").Notices
		if opened != len(all) || len(notices) != len(all) || a.OutstandingFindings() != len(all) {
			t.Errorf("%d opened, %d notices, %d outstanding", opened, len(notices), a.OutstandingFindings())
		}
		if got, _ := a.Finding(all[0].ID); got.Version != 1 || got.AnnouncedAt.IsZero() || got.Account != a.Account().ID {
			t.Errorf("opened: %+v", got)
		}
		if got := a.AlertsWithNotices(nil); len(got) != 1 || got[0].ID != "finding/00" {
			t.Errorf("alerts with notices: %v", got)
		}
		is.Equal(t, a.View().Len(conflog.KindOutbox), outbox, "it is audited")
	})
}

// People's updates are checked, counted and audited.
func TestUpdateFinding(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		n.SetOwner(true)
		f := newFinding()
		must(n.openFinding(t.Context(), f))(t)
		ctx := WithOrigin(t.Context(), Origin{Actor: "key_1"})
		text := func(s string) *string { return &s }
		to := func(s finding.Status) *finding.Status { return &s }
		later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
		one := 1
		for i, c := range []struct {
			update leak.FindingUpdate
			want   string // status, or part of the error
		}{
			{leak.FindingUpdate{Status: to(finding.Resolved)}, "resolution"},
			{leak.FindingUpdate{Status: to(finding.Resolved), Resolution: text("gone")}, "resolution"},
			{leak.FindingUpdate{Status: to(finding.Ignored)}, "ignore_reason"},
			{leak.FindingUpdate{Resolution: text("revoked")}, "resolution"},
			{leak.FindingUpdate{IgnoreUntil: &later}, "ignore_until"},
			{leak.FindingUpdate{Note: text(strings.Repeat("é", 501))}, "note"},
			{leak.FindingUpdate{Status: to(finding.Acknowledged), Note: text("a\u202eb"), Version: &one}, "acknowledged"},
			{leak.FindingUpdate{Status: to(finding.Open), Version: &one}, leak.ErrFindingChanged.Error()},
			{leak.FindingUpdate{Status: to(finding.Resolved), Resolution: text("revoked")}, "resolved"},
			{leak.FindingUpdate{Status: to(finding.Resolved), Resolution: text("revoked")}, "resolved"},
			{leak.FindingUpdate{Status: to(finding.Ignored), IgnoreReason: text("accepted_risk")}, "it can become open"},
			{leak.FindingUpdate{Status: to(finding.Open)}, "open"},
			{leak.FindingUpdate{Status: to(finding.Ignored), IgnoreReason: text("accepted_risk"), IgnoreUntil: &past},
				"ignore_until"},
			{leak.FindingUpdate{Status: to(finding.Ignored), IgnoreReason: text("accepted_risk"), IgnoreUntil: &later},
				"ignored"},
			{leak.FindingUpdate{IgnoreUntil: &time.Time{}}, "ignored"},
			{leak.FindingUpdate{Status: to("gone")}, "cannot become gone"},
		} {
			got, err := n.UpdateFinding(ctx, f.ID, c.update)
			if err == nil && string(got.Status) != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%d: %+v, %v; want %s", i, got, err, c.want)
			}
		}
		got, _ := n.Finding(f.ID)
		if got.Version != 6 || got.UpdatedBy != "key_1" || got.Note != "ab" || !got.IgnoreUntil.IsZero() ||
			got.Resolution != "" || !got.ResolvedAt.IsZero() || n.OutstandingFindings() != 0 {
			t.Errorf("after the updates: %+v", got)
		}
		if _, err := n.UpdateFinding(ctx, "fnd_x", leak.FindingUpdate{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown finding: %v", err)
		}
		kit.WaitFor(t, "the outbox is empty", func() bool { return n.View().Len(conflog.KindOutbox) == 0 })
		words := slices.DeleteFunc(auditText(t, conf), func(w string) bool { return !strings.Contains(w, "finding.") })
		if len(words) != 5 || !slices.Contains(words, "key  finding.updated [note status updated_by version]") {
			t.Errorf("audited: %q", words)
		}
	})
}

// A finding of a rule without fingerprints, which may hold several secrets, is ignored for at most a day.
func TestSharedFindingsAreIgnoredForADay(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		f := newFinding()
		f.Fingerprint = ""
		must(n.openFinding(t.Context(), f))(t)
		to, why, note := finding.Ignored, "accepted_risk", "n"
		later, day := time.Now().Add(25*time.Hour), time.Now().Add(leak.MaxSharedIgnore).Truncate(time.Second)
		if _, err := n.UpdateFinding(t.Context(), f.ID,
			leak.FindingUpdate{Status: &to, IgnoreReason: &why, IgnoreUntil: &later}); !isInvalid(err, "ignore_until") {
			t.Errorf("ignored for more than a day: %v", err)
		}
		for _, u := range []leak.FindingUpdate{{Status: &to, IgnoreReason: &why}, {Note: &note},
			{IgnoreUntil: &time.Time{}}} {
			if got, err := n.UpdateFinding(t.Context(), f.ID, u); err != nil || got.IgnoreUntil.Sub(day).Abs() > time.Second {
				t.Errorf("ignored until %v, %v; want %v", got, err, day)
			}
		}
	})
}

// isInvalid reports whether an error is about a parameter.
func isInvalid(err error, param string) bool {
	e, ok := errors.AsType[*entity.InvalidError](err)
	return ok && e.Param == param
}

// Filters and counts are answered from the attributes, also of a state that was read from a snapshot.
func TestFindingFilters(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	var ids []string
	for i, c := range []struct {
		severity finding.Severity
		status   finding.Status
		until    time.Time
	}{
		{finding.Low, finding.Open, time.Time{}}, {finding.Critical, finding.Acknowledged, time.Time{}},
		{finding.High, finding.Resolved, time.Time{}}, {finding.High, finding.Ignored, until},
		{finding.Medium, finding.Ignored, time.Time{}},
	} {
		f := newFinding()
		f.Severity, f.Status, f.IgnoreUntil, f.Test = c.severity, c.status, c.until, i == 0
		f.First.Sender, f.Rule = fmt.Sprint("drn_", i%2), fmt.Sprint("rule-", i%3)
		must(n.openFinding(t.Context(), f))(t)
		ids = append(ids, f.ID)
	}
	noError(t, n.WriteSnapshot(t.Context()))
	trim(t, conf, stream.Control)
	for _, n := range []*testNode{n, node(t, conf, Config{Node: "b"})} {
		for _, c := range []struct {
			filter leak.FindingFilter
			want   []int
		}{
			{leak.FindingFilter{}, []int{4, 3, 2, 1, 0}},
			{leak.FindingFilter{Statuses: []finding.Status{finding.Open, finding.Resolved}}, []int{2, 0}},
			{leak.FindingFilter{Severities: []finding.Severity{finding.High}}, []int{3, 2}},
			{leak.FindingFilter{MinSeverity: finding.High}, []int{3, 2, 1}},
			{leak.FindingFilter{IgnoredUntil: until}, []int{3}},
			{leak.FindingFilter{Sender: "drn_0"}, []int{4, 2, 0}},
			{leak.FindingFilter{Sender: "drn_1", Rule: "rule-1"}, []int{1}},
			{leak.FindingFilter{Rule: "rule-0"}, []int{3, 0}},
			{leak.FindingFilter{Limit: 2}, []int{4, 3}},
			{leak.FindingFilter{IgnoredUntil: until.Add(-time.Second)}, nil},
		} {
			var want []string
			for _, i := range c.want {
				want = append(want, ids[i])
			}
			is.List(t, n.FindingIDs(c.filter), want, "%+v", c.filter)
		}
		is.Equal(t, n.OutstandingFindings(), 2, "findings are outstanding")
	}
	old := n.FindingsBefore(time.Now().Add(time.Minute))
	if len(old) != 5 || old[0].ID != ids[0] || len(n.FindingsBefore(time.Now().Add(-time.Hour))) != 0 {
		t.Errorf("%d findings before", len(old))
	}
	noError(t, n.ForgetFinding(t.Context(), old[0]))
	if _, presence := n.Finding(ids[0]); presence != entity.Unknown {
		t.Errorf("a forgotten finding is %v", presence)
	}
}

// Findings do not stop while the audit log takes no entry, and end at their bounds.
func TestFindingBounds(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(conflog.KindOutbox, "len", 1<<30)
	f := newFinding()
	if _, err := n.openFinding(t.Context(), f); err != nil {
		t.Errorf("with a full outbox: %v", err)
	}
	note := "n"
	ctx := WithOrigin(t.Context(), Origin{Actor: "key_1"})
	if _, err := n.UpdateFinding(ctx, f.ID, leak.FindingUpdate{Note: &note}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a person's change with a full outbox: %v", err)
	}
	n.inject(entity.KindFinding, "pending", leak.MaxOutstandingFindings)
	if _, err := n.openFinding(t.Context(), newFinding()); !errors.Is(err, leak.ErrTooManyFindings) {
		t.Errorf("with as many findings as may be: %v", err)
	}
	n.inject(entity.KindFinding, "pending", leak.MaxOutstandingFindings)
	flood := newFinding()
	flood.Rule = finding.RuleFlood
	if _, err := n.openFinding(t.Context(), flood); err != nil {
		t.Errorf("the finding of a flood: %v", err)
	}
	n.inject(entity.KindFinding, "pending", leak.MaxOutstandingFindings)
	key := newFinding()
	key.KeyID = "key_1"
	if _, err := n.openFinding(t.Context(), key); err != nil {
		t.Errorf("the finding of an API key of our own: %v", err)
	}
}

// A sender gets a share of the room that is left, so that no sender uses up that of others; findings that are not
// severe get half of it.
func TestRemainingFindings(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		want := func(what, sender string, severe, minor int) {
			t.Helper()
			time.Sleep(2 * time.Second) // the counts of senders are at most a second old
			s, m := n.RemainingFindings(sender, finding.High), n.RemainingFindings(sender, finding.Medium)
			if s != severe || m != minor {
				t.Errorf("%s: %s may open %d severe and %d minor findings, want %d and %d", what, sender, s, m, severe, minor)
			}
		}
		want("at first", "drn_1", 6666, 3333)
		for i := range 6 {
			f := newFinding()
			f.First.Sender = "drn_1"
			if i >= 4 {
				f.Status, f.Resolution = finding.Resolved, "revoked"
			}
			must(n.openFinding(t.Context(), f))(t)
		}
		want("six findings, two are resolved", "drn_1", 6665-4, 3332-4)
		want("six findings of another sender", "drn_2", 6665, 3332)
		n.inject(entity.KindFinding, "pending", leak.MaxOutstandingFindings-18)
		want("nearly full", "drn_1", 2, 0)
		want("nearly full", "drn_2", 6, 3)
		n.inject(entity.KindFinding, "pending", leak.MaxOutstandingFindings+1)
		want("full", "drn_2", 0, 0)
		n.inject(entity.KindFinding, "pending", 0)
		n.inject(entity.KindFinding, "len", leak.MaxFindings-21)
		want("nearly as many findings as may be", "drn_1", 1, 0)
		want("nearly as many findings as may be", "drn_2", 7, 3)
	})
}

// Ids and statuses of findings outlast an export and its import into an empty log. A key that was used before the
// import gets the fingerprint of the imported installation at its next use.
func TestImportKeepsFindings(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	keys := must(a.FindingKeys(t.Context()))(t)
	secret := []byte("a secret")
	f := newFinding()
	f.Fingerprint = keys.Fingerprint(keys.SaltedHash(secret))
	f.ID = keys.ID("r", f.Fingerprint, [16]byte{})
	must(a.openFinding(t.Context(), f))(t)
	doc := exportOf(t, a)
	const bootstrap = "bootstrap-key-of-the-new-one"
	b := node(t, broker(t), Config{Node: "b", BootstrapKey: bootstrap})
	used := func() *Key {
		t.Helper()
		var found *Key
		kit.WaitFor(t, "the key has a fingerprint", func() bool {
			k := must(b.Authenticate(bootstrap))(t)
			keys, err := b.FindingKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found = b.KeyByFingerprint(keys.Fingerprint(keys.SaltedHash([]byte(bootstrap))))
			return found != nil && found.ID == k.ID
		})
		return found
	}
	if k := used(); !b.KeyWorks(k) {
		t.Error("the key works")
	}
	must(importInto(t, b, doc, false))(t)
	used()
	keys = must(b.FindingKeys(t.Context()))(t)
	id := keys.ID("r", keys.Fingerprint(keys.SaltedHash(secret)), [16]byte{})
	got, _ := b.Finding(id)
	if id != f.ID || got == nil || got.Status != finding.Open || got.Fingerprint != f.Fingerprint {
		t.Errorf("the finding has the id %s, was %s: %+v", id, f.ID, got)
	}
	if b.KeyByFingerprint("") != nil || b.KeyByFingerprint(f.Fingerprint) != nil {
		t.Error("found a key without its fingerprint")
	}
}

// A key that is revoked or has expired does not work.
func TestKeyWorks(t *testing.T) {
	now := time.Now()
	n := &testNode{Control: &Control{core: &core{}}}
	for name, c := range map[string]struct {
		key  Key
		want bool
	}{
		"revoked":   {Key{RevokedAt: now}, false},
		"bootstrap": {Key{Bootstrap: true}, false}, // the environment does not name it
		"any":       {Key{}, true},
	} {
		c.key.Hash = make([]byte, conflog.HashLen)
		is.Equal(t, (callers{n.core}).KeyWorks(&c.key), c.want, name)
	}
}
