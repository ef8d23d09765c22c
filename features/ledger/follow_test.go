package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// follow returns followers of the model's log that read everything at once.
func (m *model) follow(change func(*Config)) *followers {
	cfg := Config{Every: time.Minute, Window: 10_000 * time.Hour, PerSecond: 1e8, MaxOpen: 1e6, MaxSearch: 1e6}
	change(&cfg)
	return &followers{cfg: cfg, log: m.log, now: func() time.Time { return m.now }, all: map[int32]*follower{}}
}

func (m *model) mustRun(f *followers, wanted ...int32) runResult {
	m.t.Helper()
	l := must.Get(f.run(m.t.Context(), wanted))(m.t)
	return l
}

// whileTrafficFlows runs f and lets things happen between any two reads: a few steps, or so many that new work starts
// and ends.
func (m *model) whileTrafficFlows(f func()) {
	m.log.between = func(asked bool) {
		for range m.r.IntN(12) {
			m.step()
		}
		if m.r.IntN(30) == 0 || asked && m.r.IntN(2) == 0 {
			m.accept()
			if !m.noReplays {
				m.replay()
			}
			for range 40 {
				m.poll()
				m.work()
			}
			m.commit()
		}
	}
	f()
	m.log.between = func(bool) {}
}

// A follower that reads from cut to cut, and forgets what has ended, calls nothing lost that is not and counts as an
// audit does.
func TestFollowRandomHistories(t *testing.T) {
	eachHistory(t, historyCount(20), func(t *testing.T, m *model) {
		m.noReplays = m.r.IntN(2) == 0
		f := m.follow(func(*Config) {})
		var lost []Lost
		f.onLost = func(l Lost) { lost = append(lost, l) }
		for range 6 {
			for range 50 + m.r.IntN(100) {
				m.step()
			}
			m.whileTrafficFlows(func() {
				if l := m.mustRun(f, 0, 1); l.Lost != 0 || l.retryAfter != 0 {
					t.Fatalf("while traffic flows: %+v\n%v", l, m)
				}
			})
		}
		m.settle()
		l := m.mustRun(f, 0, 1)
		if l.Lost != 0 || l.InFlight != 0 || l.Accepted != l.Delivered+l.Failed+l.Skipped+l.Rejected+l.Dead {
			t.Fatalf("after everything has come to its end: %+v; lost: %v", l, lost)
		}
		want := m.mustAudit(Span{}).Counts
		want.Duplicates = 0
		l.Duplicates = 0
		switch {
		case !m.noReplays: // a replay of an ended event counts separately
			if l.Accepted < want.Accepted {
				t.Errorf("followed %+v, an audit finds %+v", l, want)
			}
		case l.Accepted != want.Accepted || l.Rejected != want.Rejected:
			// The classes may differ: of two ends of a chain that forked, the first that is read counts.
			t.Error(cmp.Diff(want, l.Counts))
		}
		if left := f.size(); left > 0 {
			t.Errorf("%d entries are remembered though everything has ended", left)
		}
	})
}

// Traffic that is too fast is sampled, and nothing is called lost because of the gaps.
func TestFollowSamplesFastTraffic(t *testing.T) {
	eachHistory(t, historyCount(20), func(t *testing.T, m *model) {
		f := m.follow(func(c *Config) {
			c.Every, c.PerSecond = 100*time.Microsecond, 1e6 // 100 records
			c.Window = time.Duration(m.r.IntN(3600)) * time.Second
			c.MaxOpen = 20 + m.r.IntN(100)
			c.MaxSearch = m.r.IntN(40)
		})
		passes, looks := 0, 0
		for range 30 {
			for range m.r.IntN(150) {
				m.step()
			}
			wanted := [][]int32{{0, 1}, {0, 1}, {0, 1}, {0}, {1}, {}}[m.r.IntN(6)] // partitions come and go
			m.whileTrafficFlows(func() {
				l := m.mustRun(f, wanted...)
				must.Equal(t, l.Lost, 0, "%+v\n%v", l, m)
				if l.retryAfter != 0 {
					passes++
				} else if looks++; f.size() > f.cfg.MaxOpen {
					t.Fatalf("%d entries are remembered, at most %d may be", f.size(), f.cfg.MaxOpen)
				}
			})
		}
		if passes == 0 || looks == 0 {
			t.Logf("%d runs skipped, %d reconciled: this history shows nothing", passes, looks)
			return
		}
		if f.unaudited == 0 {
			t.Error("no record is counted as unaudited")
		}
	})
}

// Lost work is found once the time that its last outcome announced is over, and reported once.
func TestFollowFindsLostWork(t *testing.T) {
	eachHistory(t, historyCount(20), func(t *testing.T, m *model) {
		f := m.follow(func(*Config) {})
		reported, lost := map[chain]int{}, 0
		f.onLost = func(l Lost) { reported[chain{l.Event, l.Dest, l.Run}]++; lost++ }
		for range 4 {
			for range 50 + m.r.IntN(50) {
				m.step()
			}
			m.mustRun(f, 0, 1)
		}
		m.crash()
		candidates := m.soleOpenWork()
		if len(candidates) == 0 {
			t.Log("this history has no delivery that could be lost")
			return
		}
		w := candidates[m.r.IntN(len(candidates))]
		m.log.commits[w.at] = stream.Commit{Offset: w.offset + 1}
		m.crash()
		m.now = m.now.Add(24 * time.Hour)
		for range 3 {
			if l := m.mustRun(f, 0, 1); l.Lost == 0 || l.Lost > lost {
				t.Fatalf("lost %d, reported %d", l.Lost, lost)
			}
		}
		for _, c := range candidates {
			if c.at == w.at && c.offset <= w.offset && reported[c.chain] != 1 {
				t.Errorf("%v was lost and reported %d times; reported: %v", c.chain, reported[c.chain], reported)
			}
		}
	})
}

// The clock of the node that delivers may be behind that of the node that accepted: its outcomes are read
// nevertheless.
func TestClockSkewHidesNothing(t *testing.T) {
	m := newModel(t, 1)
	m.now = m.now.Add(time.Hour)
	began := m.now
	e := &event.Event{ID: m.newID(0), Endpoint: "ep_1", Verdict: event.VerdictVerified, Dests: []string{"dst_a"}}
	m.log.append(stream.Events, 0, e.Record(), m.now)
	m.log.append(stream.Outcomes, 0,
		(&event.Outcome{Event: e.ID, Endpoint: "ep_1", Dest: "dst_a", Status: event.Delivered}).Record(),
		m.now.Add(-time.Minute))
	m.log.commits[stream.Partition{Topic: stream.Events}] = stream.Commit{Offset: 1}
	want := Counts{Accepted: 1, Delivered: 1}
	is.Equal(t, m.mustAudit(Span{Since: began}).Counts, want, "audit")
	m.now = m.now.Add(time.Hour)
	is.Equal(t, m.mustRun(m.follow(func(c *Config) { c.Window = time.Hour }), 0, 1).Counts, want, "follow")
}

// Events whose outcomes retention has deleted are not counted.
func TestTrimmedEventsAreNotCounted(t *testing.T) {
	m := newModel(t, 1)
	outcomes := stream.Partition{Topic: stream.Outcomes}
	var last time.Time
	for range 30 {
		m.now = m.now.Add(time.Minute)
		last = m.now
		e := &event.Event{ID: m.newID(0), Endpoint: "ep_1", Verdict: event.VerdictVerified, Dests: []string{"dst_a"}}
		m.log.append(stream.Events, 0, e.Record(), m.now)
		m.log.append(stream.Outcomes, 0,
			(&event.Outcome{Event: e.ID, Endpoint: "ep_1", Dest: "dst_a", Status: event.Delivered}).Record(), m.now)
	}
	m.log.commits[stream.Partition{Topic: stream.Events}] = stream.Commit{Offset: 30}
	m.now = m.now.Add(time.Second)
	f := func(start int64, want int) {
		t.Helper()
		m.log.starts[outcomes] = start
		r := m.mustAudit(Span{})
		if r.Accepted != want || r.Delivered != want {
			t.Errorf("outcomes from %d: %v, want %d", start, r.Counts, want)
		}
		if want < 30 && !r.Since.After(last.Add(-time.Duration(want)*time.Minute)) {
			t.Errorf("outcomes from %d: the report does not say that it begins later: %v", start, r.Since)
		}
		is.Equal(t, m.mustRun(m.follow(func(*Config) {}), 0).Counts, r.Counts, "outcomes from %d: followed", start)
	}
	f(0, 30)
	f(10, 18) // the first outcome left is of minute 10; two minutes of clock slack follow
	f(30, 0)
}
