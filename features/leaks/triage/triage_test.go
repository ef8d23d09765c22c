package triage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
)

func TestMain(m *testing.M) { kit.Main(m) }

const partitions = 4

// rig is a log in memory with the configuration of two nodes, in a bubble with fake time.
type rig struct {
	*testing.T
	conf     stream.Config
	nodes    []*config.Control
	producer *stream.Producer
	store    *fakeStore
	keys     finding.Keys
}

// bubble runs a test with a rig.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, conf := streamtest.BrokerInBubble(t, partitions)
		r := &rig{T: t, store: &fakeStore{last: map[string]time.Time{}}, conf: conf}
		var err error
		if r.producer, err = stream.NewProducer(r.conf, "test"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.producer.Close)
		for _, name := range []string{"a", "b"} {
			r.nodes = append(r.nodes, r.startControl(name))
		}
		if r.keys, err = r.nodes[0].FindingKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, r)
	})
}

func (r *rig) startControl(name string) *config.Control {
	r.Helper()
	ring, err := seal.NewKeyring("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		r.Fatal(err)
	}
	c, err := config.New(config.Config{Node: name, Partitions: partitions},
		config.Deps{Stream: r.conf, Keyring: ring, Now: time.Now})
	if err != nil {
		r.Fatal(err)
	}
	r.run(c.Run)
	select {
	case <-c.Ready():
	case <-time.After(time.Minute):
		r.Fatal("the configuration is not ready")
	}
	return c
}

// run runs a component until the test, or stop, ends it.
func (r *rig) run(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
	})
	stop = func() {
		cancel()
		all.Wait()
	}
	r.Cleanup(stop)
	return stop
}

// All dependencies are needed, and the number of partitions; a partition that is lost is not owned.
func TestNewRequiresDependencies(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		for i, forget := range []func(*Deps){
			func(d *Deps) { d.Log = nil }, func(d *Deps) { d.Config = nil },
			func(d *Deps) { d.Store = nil }, func(d *Deps) { d.Notifier = nil }, func(d *Deps) { d.Now = nil },
			func(d *Deps) { d.Metrics = nil }, func(d *Deps) { d.Stream = stream.Config{} },
		} {
			deps := d.deps
			deps.Metrics = prometheus.NewRegistry()
			forget(&deps)
			if _, err := New(Config{Partitions: 1}, deps); err == nil {
				t.Errorf("dependency %d is not needed", i)
			}
		}
		deps := d.deps
		deps.Metrics = prometheus.NewRegistry()
		if _, err := New(Config{}, deps); err == nil {
			t.Error("no partitions are enough")
		}
		deps.Metrics = prometheus.NewRegistry()
		d = must.Get(New(Config{Partitions: 1}, deps))(t)
		p := stream.Partition{Topic: stream.Findings}
		if d.owns("fnd_1") {
			t.Error("a finding is owned before a partition is")
		}
		if d.onAssigned(map[stream.Partition]stream.Commit{p: {}}); !d.owns("fnd_1") {
			t.Error("an assigned partition is not owned")
		}
		if d.onLost([]stream.Partition{p}); d.owns("fnd_1") || !d.lost[p] {
			t.Error("a lost partition is owned, or its offset is committed")
		}
	})
}

// triage returns a triage on a node. Its notifier writes each message into an alert of the finding.
func (r *rig) triage(node int) *Triage {
	r.Helper()
	d := must.Get(New(Config{Partitions: partitions}, Deps{Log: slog.New(slog.DiscardHandler), Stream: r.conf,
		Config: r.nodes[node], Store: r.store, Notifier: fakeNotifier{}, Now: time.Now,
		Metrics: prometheus.NewRegistry()}))(r)
	for p := range int32(partitions) {
		d.owned[p] = true
	}
	return d
}

type fakeNotifier struct{}

func (fakeNotifier) Announce(t finding.Transition) config.Announcer {
	return func(f *leak.Finding, _ func(string) *alerting.Alert) *config.FindingNotice {
		if f.Unverified || f.Severity < finding.High {
			return nil
		}
		return &config.FindingNotice{Alert: "of/" + f.ID, Write: func(a *alerting.Alert) {
			a.Notices = append(a.Notices, alerting.AlertNotice{Type: string(t), PendingTargets: []string{"x"}})
		}}
	}
}

// messages returns the transitions of a finding about which people are notified.
func (r *rig) messages(id string) string {
	r.Helper()
	must.Do(r, r.nodes[1].Sync(r.Context()))
	a := r.nodes[1].Alert("of/" + id)
	if a == nil {
		return ""
	}
	var all []string
	for _, n := range a.Notices {
		all = append(all, n.Type)
	}
	return strings.Join(all, " ")
}

func (r *rig) wantMessages(id, want string) {
	r.Helper()
	if got := r.messages(id); got != want {
		r.Errorf("messages %q, want %q", got, want)
	}
}

// hit returns a hit of a secret that arrives now.
func (r *rig) hit(secret string, alter ...func(*finding.Hit)) *finding.Hit {
	fpr := r.keys.Fingerprint(r.keys.SaltedHash([]byte(secret)))
	h := &finding.Hit{Account: r.nodes[0].Account().ID, Finding: r.keys.ID("r", fpr, [16]byte{}),
		ID: finding.HitID("drn_1", secret, 1), At: time.Now(), ObservedAt: time.Now(), N: 1, Kind: finding.Secret,
		Rule: "r", Source: finding.Drain, Sender: "drn_1", Severity: finding.High, Fingerprint: fpr,
		Location: finding.Location{Source: finding.Drain, DrainID: "drn_1", Label: "shop"}}
	for _, f := range alter {
		f(h)
	}
	return h
}

// decideHits decides hits on a triage.
func (r *rig) decideHits(d *Triage, hits ...*finding.Hit) {
	r.Helper()
	for _, h := range hits {
		must.Do(r, d.decideHit(r.Context(), h))
	}
}

func (r *rig) finding(id string) *leak.Finding {
	r.Helper()
	for _, n := range r.nodes {
		must.Do(r, n.Sync(r.Context()))
	}
	f, _ := r.nodes[0].Finding(id)
	return f
}

func (r *rig) update(id string, u leak.FindingUpdate) {
	r.Helper()
	must.Get(r.nodes[0].UpdateFinding(r.Context(), id, u))(r)
	r.finding(id)
}

func resolved() leak.FindingUpdate {
	to, why := finding.Resolved, "revoked"
	return leak.FindingUpdate{Status: &to, Resolution: &why}
}

// fakeStore knows when findings were hit.
type fakeStore struct {
	last    map[string]time.Time
	asked   []string
	deleted []string
	err     error
}

func (s *fakeStore) LastHits(_ context.Context, ids []string) (map[string]time.Time, error) {
	s.asked = append(s.asked, ids...)
	last := maps.Clone(s.last)
	maps.DeleteFunc(last, func(id string, _ time.Time) bool { return !slices.Contains(ids, id) })
	return last, s.err
}

func (s *fakeStore) DeleteFindings(_ context.Context, ids []string) error {
	s.deleted = append(s.deleted, ids...)
	return s.err
}

func unverified(h *finding.Hit) { h.Unverified = true }

// Two nodes that own a partition for a moment decide the same hits: each finding is opened once, with one message.
func TestTwoOwnersSendOneMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.triage(0), r.triage(1)
		var all sync.WaitGroup
		for _, d := range []*Triage{a, b, a, b} {
			all.Go(func() {
				for i := range 20 {
					r.decideHits(d, r.hit(fmt.Sprint(i)))
				}
			})
		}
		all.Wait()
		for i := range 20 {
			id := r.hit(fmt.Sprint(i)).Finding
			r.wantMessages(id, "opened")
			if f := r.finding(id); f == nil || f.Version != 1 {
				t.Errorf("finding %+v", f)
			}
		}
		opened := testutil.ToFloat64(a.metrics.transitions.WithLabelValues("opened")) +
			testutil.ToFloat64(b.metrics.transitions.WithLabelValues("opened"))
		is.Equal(t, opened, 20, "findings were opened")
	})
}

// A node ends between any two steps, and the next one reads the same hits again: nothing changes and nobody is notified
// twice. What was committed is not read again.
func TestHitsThatAreReadTwiceChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		audited := r.nodes[0].View().Len(conflog.KindOutbox)
		produce := func(from, to int) {
			for i := from; i < to; i++ {
				h := r.hit(fmt.Sprint(i))
				rec := &stream.Record{Key: []byte(h.Finding), Value: h.Encode()}
				p := finding.PartitionOf(h.Finding, partitions)
				must.Do(t, r.producer.ProduceSync(t.Context(), stream.Findings, p, rec))
			}
		}
		counts := &finding.Counts{Account: "acc_1", Sender: "drn_1", Minute: time.Now(), Node: "a"}
		for _, value := range [][]byte{counts.Encode(), []byte("{")} {
			must.Do(t, r.producer.ProduceSync(t.Context(), stream.Findings, 0, &stream.Record{Value: value}))
		}
		produce(0, 30)
		until := func(d *Triage, opened, read float64) {
			t.Helper()
			for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
				got := testutil.ToFloat64(d.metrics.hits.WithLabelValues("drain"))
				if got == read && r.nodes[1].OutstandingFindings() == int(opened) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%v hits were read, %d findings are open", got, r.nodes[1].OutstandingFindings())
				}
			}
		}
		// The first node ends before it commits: each decision is durable, the offset is not.
		for i := range 15 {
			r.decideHits(r.triage(0), r.hit(fmt.Sprint(i)))
		}
		d := r.triage(1)
		stop := r.run(d.Run)
		until(d, 30, 30)
		is.Equal(t, testutil.ToFloat64(d.metrics.transitions.WithLabelValues("opened")), 15,
			"findings were opened again")
		is.Equal(t, testutil.ToFloat64(d.metrics.undecodable), 1, "undecodable records")
		time.Sleep(3 * time.Second) // commits are made every second
		stop()
		produce(30, 40)
		next := r.triage(0)
		r.run(next.Run)
		until(next, 40, 10)
		for i := range 40 {
			r.wantMessages(r.hit(fmt.Sprint(i)).Finding, "opened")
		}
		if n := r.nodes[0].View().Len(conflog.KindOutbox); n != audited {
			t.Errorf("%d changes are audited", n-audited)
		}
	})
}

// A hit that was observed more than an hour after the resolution opens the finding again, with one message. Earlier and
// unverified ones change nothing.
func TestResolvedFindingsReopen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.triage(0), r.triage(1)
		first := r.hit("s")
		id := first.Finding
		r.decideHits(a, first, first)
		r.update(id, resolved())
		resolvedAt := r.finding(id).ResolvedAt
		at := func(arrival, observed time.Duration) func(*finding.Hit) {
			return func(h *finding.Hit) { h.At, h.ObservedAt = resolvedAt.Add(arrival), resolvedAt.Add(observed) }
		}
		late := at(61*time.Minute, 61*time.Minute)
		r.decideHits(a, first, r.hit("s", at(59*time.Minute, 59*time.Minute)), r.hit("s", at(2*time.Hour, time.Hour)),
			r.hit("s", late, unverified))
		if f := r.finding(id); f.Status != finding.Resolved || f.Version != 2 {
			t.Fatalf("reopened by a hit that only counts: %+v", f)
		}
		regression := r.hit("s", late)
		r.decideHits(a, regression, regression)
		r.decideHits(b, regression)
		f := r.finding(id)
		if f.Status != finding.Open || !f.RegressedAt.Equal(regression.At) || f.Resolution != "" || f.Version != 3 {
			t.Errorf("after the regression: %+v", f)
		}
		r.wantMessages(id, "opened reopened")
		// Resolved again, the first hit is too early.
		r.update(id, resolved())
		r.decideHits(b, first)
		if f := r.finding(id); f.Status != finding.Resolved {
			t.Errorf("reopened by a hit from before the resolution: %+v", f)
		}
	})
}

// An ignored finding stays so, whatever hits it gets, until its time has passed.
func TestIgnoredFindingsReopen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		h, other := r.hit("s"), r.hit("t")
		r.decideHits(d, h, other)
		to, why, until := finding.Ignored, "accepted_risk", time.Now().Add(time.Hour)
		r.update(h.Finding, leak.FindingUpdate{Status: &to, IgnoreReason: &why, IgnoreUntil: &until})
		r.update(other.Finding, leak.FindingUpdate{Status: &to, IgnoreReason: &why})
		reopen := func(after time.Duration, on ...*Triage) {
			t.Helper()
			for _, d := range on {
				d.deps.Now = func() time.Time { return time.Now().Add(after) }
				must.Do(t, d.reopenIgnored(t.Context(), d.now()))
			}
		}
		b := r.triage(1)
		r.decideHits(d, r.hit("s"))
		reopen(59*time.Minute, d, b)
		if f := r.finding(h.Finding); f.Status != finding.Ignored || f.Version != 2 {
			t.Fatalf("reopened too early: %+v", f)
		}
		clear(d.owned)
		reopen(time.Hour, d)
		if f := r.finding(h.Finding); f.Status != finding.Ignored {
			t.Error("reopened by a node that does not own it")
		}
		reopen(time.Hour, b, r.triage(0), b)
		f := r.finding(h.Finding)
		if f.Status != finding.Open || f.IgnoreReason != "" || !f.IgnoreUntil.IsZero() {
			t.Errorf("after its time: %+v", f)
		}
		r.wantMessages(h.Finding, "opened reopened")
		if f := r.finding(other.Finding); f.Status != finding.Ignored {
			t.Error("reopened what is ignored for good")
		}
	})
}

// Severity and trust only rise. People are notified when that makes a finding worth it for the first time.
func TestSeverityAndTrustRise(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		severity := func(s finding.Severity) func(*finding.Hit) { return func(h *finding.Hit) { h.Severity = s } }
		low := r.hit("s", severity(finding.Low))
		r.decideHits(d, low)
		r.wantMessages(low.Finding, "")
		r.decideHits(d, r.hit("s", severity(finding.Critical)), low, r.hit("s", severity(finding.High)))
		if f := r.finding(low.Finding); f.Severity != finding.Critical || f.Version != 2 {
			t.Errorf("severity: %+v", f)
		}
		r.wantMessages(low.Finding, "opened")

		high := r.hit("v")
		r.decideHits(d, high, r.hit("v", severity(finding.Critical)))
		if f := r.finding(high.Finding); f.Severity != finding.Critical {
			t.Errorf("severity: %+v", f)
		}
		r.wantMessages(high.Finding, "opened") // people know it already

		h := r.hit("t", unverified)
		r.decideHits(d, h)
		r.wantMessages(h.Finding, "")
		r.decideHits(d, r.hit("t"), h, r.hit("t"))
		if f := r.finding(h.Finding); f.Unverified || f.Version != 2 {
			t.Errorf("trust: %+v", f)
		}
		r.wantMessages(h.Finding, "opened")

		// A finding that somebody has acknowledged changes without a message.
		h = r.hit("u", unverified)
		r.decideHits(d, h)
		to := finding.Acknowledged
		r.update(h.Finding, leak.FindingUpdate{Status: &to})
		r.decideHits(d, r.hit("u"))
		if f := r.finding(h.Finding); f.Unverified || f.Status != finding.Acknowledged {
			t.Errorf("acknowledged: %+v", f)
		}
		r.wantMessages(h.Finding, "")
	})
}

// Our own API keys are recognised by their fingerprint; one that works is critical. A test key is none.
func TestOwnKeysAreRecognised(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		text, k, err := r.nodes[0].CreateKey(t.Context(), config.NewKey{Name: "ci", Scope: config.Read})
		must.Do(t, err)
		h := r.hit(text)
		r.decideHits(d, h)
		if f := r.finding(h.Finding); f.KeyID != k.ID || f.Severity != finding.Critical {
			t.Errorf("a working key: %+v", f)
		}
		revokedText, revoked, err := r.nodes[0].CreateKey(t.Context(), config.NewKey{Name: "old", Scope: config.Read})
		if err == nil {
			err = r.nodes[0].RevokeKey(t.Context(), revoked.ID)
		}
		must.Do(t, err)
		h = r.hit(revokedText)
		r.decideHits(d, h)
		if f := r.finding(h.Finding); f.KeyID != revoked.ID || f.Severity != finding.High {
			t.Errorf("a revoked key: %+v", f)
		}
		h = r.hit("test key", func(h *finding.Hit) { h.Test, h.Severity = true, finding.Low })
		r.decideHits(d, h, h)
		if f := r.finding(h.Finding); f.KeyID != "" || !f.Test || f.Severity != finding.Low {
			t.Errorf("a test key: %+v", f)
		}
	})
}

// A finding is forgotten 400 days after its last hit, by the node that owns it. A hit afterwards opens it anew.
func TestOldFindingsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		gone, hit := r.hit("gone"), r.hit("hit")
		r.decideHits(d, gone, hit)
		start := time.Now()
		day := func(n int) time.Time { return start.Add(time.Duration(n) * 24 * time.Hour) }
		r.store.last[gone.Finding], r.store.last[hit.Finding] = gone.At, day(200)
		forget := func(now time.Time) {
			t.Helper()
			must.Do(t, d.forgetOld(t.Context(), now))
		}
		forget(day(0)) // the first time only begins the wait
		forget(day(399))
		if len(r.store.asked) > 0 {
			t.Fatal("the store was asked for young findings")
		}
		r.store.err = errors.New("the store is unavailable")
		forget(day(401))
		r.store.err = nil
		forget(day(401).Add(time.Hour)) // once a day
		if r.finding(gone.Finding) == nil || len(r.store.asked) != 2 || len(r.store.deleted) > 0 {
			t.Fatalf("forgotten without the store, which was asked for %v", r.store.asked)
		}
		other := r.triage(1)
		clear(other.owned)
		must.Do(t, errors.Join(other.forgetOld(t.Context(), day(0)), other.forgetOld(t.Context(), day(402))))
		if r.finding(gone.Finding) == nil {
			t.Fatal("forgotten by a node that does not own it")
		}
		forget(day(402))
		if r.finding(gone.Finding) != nil || r.finding(hit.Finding) == nil ||
			!slices.Equal(r.store.deleted, []string{gone.Finding}) {
			t.Errorf("deleted %v", r.store.deleted)
		}
		r.decideHits(d, r.hit("gone"))
		if f := r.finding(gone.Finding); f == nil || f.Version != 1 {
			t.Errorf("after another hit: %+v", f)
		}
	})
}

// Beyond the bounds a hit changes nothing, and the triage goes on.
func TestRefusedFindingsStopNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := r.triage(0)
		d.deps.Config = refusing{d.deps.Config}
		r.decideHits(d, r.hit("s"), r.hit("s"))
		refused, dropped := testutil.ToFloat64(d.metrics.refused), d.DroppedHits()
		if refused != 2 || dropped != 2 || r.finding(r.hit("s").Finding) != nil {
			t.Errorf("%v were refused, %v hits dropped", refused, dropped)
		}
	})
}

// People are notified of a flood once a day while it goes on, also after they have acknowledged it. Hits that are read
// again, and those of other findings, send nothing.
func TestFloodIsAnnouncedEachDay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		one, two := r.triage(0), r.triage(1)
		after := time.Duration(0)
		now := func() time.Time { return time.Now().Add(after) }
		one.deps.Now, two.deps.Now = now, now
		at := func(h *finding.Hit) { h.At, h.ObservedAt = now(), now() }
		flood := func(h *finding.Hit) { h.Rule, h.Fingerprint = finding.RuleFlood, "" }
		h, other := r.hit("flood", flood), r.hit("other")
		r.decideHits(one, h, other)
		want := "opened"
		for day := range 3 {
			after += 23 * time.Hour
			r.decideHits(one, r.hit("flood", flood, at), r.hit("other", at))
			r.wantMessages(h.Finding, want)
			after += 2 * time.Hour
			again := r.hit("flood", flood, at)
			r.decideHits(one, again, again, h, r.hit("other", at))
			r.finding(h.Finding) // both nodes have it
			r.decideHits(two, again)
			want += " continued"
			r.wantMessages(h.Finding, want)
			if day == 1 {
				to := finding.Acknowledged
				r.update(h.Finding, leak.FindingUpdate{Status: &to})
			}
		}
		r.wantMessages(other.Finding, "opened")
		after += 48 * time.Hour
		r.decideHits(one, h) // it has ended: an old hit is read again
		r.wantMessages(h.Finding, want)
	})
}

// refusing is a configuration that has as many findings as may be.
type refusing struct{ Configuration }

func (refusing) DecideFinding(context.Context, string, func(*leak.Finding) (*leak.Finding, config.Announcer)) (
	_, _ *leak.Finding, err error) {
	return nil, nil, leak.ErrTooManyFindings
}
