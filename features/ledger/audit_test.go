package ledger

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// mustAudit audits everything in the model's log.
func (m *model) mustAudit(span Span) Report {
	m.t.Helper()
	r := must.Get(audit(m.t.Context(), m.log, span, m.now.Add(time.Second)))(m.t)
	return r
}

// historyCount is the number of random histories; ten times as many with RELAY_TORTURE.
func historyCount(n uint64) uint64 {
	if os.Getenv("RELAY_TORTURE") != "" {
		return 10 * n
	}
	return n
}

// eachHistory runs a random history for each seed; a failure names the seed.
func eachHistory(t *testing.T, n uint64, f func(t *testing.T, m *model)) {
	for seed := range n {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { f(t, newModel(t, seed)) }) {
			return
		}
	}
}

// At every moment of a history, nothing is called lost that is not, and the counts equal those of the naive model
// when nothing moves.
func TestAuditOfRandomHistories(t *testing.T) {
	eachHistory(t, historyCount(25), func(t *testing.T, m *model) {
		for range 4 {
			for range 100 + m.r.IntN(200) {
				m.step()
			}
			m.whileTrafficFlows(func() {
				if r := m.mustAudit(Span{}); r.Lost != 0 {
					t.Fatalf("false loss while traffic flows: %v\n%v\n%v", r.Counts, r.Losses, m)
				}
			})
			m.wantNaiveCounts(m.mustAudit(Span{}))
		}
		m.settle()
		r := m.mustAudit(Span{})
		m.wantNaiveCounts(r)
		if r.InFlight != 0 || r.UndecodableOutcomes != 0 {
			t.Errorf("after everything has ended: %v", r)
		}
	})
}

// wantNaiveCounts compares a report with the naive counts. The naive count takes work in the dead letter topic that
// does not name its delivery as in flight, because it does not look there.
func (m *model) wantNaiveCounts(r Report) {
	m.t.Helper()
	got, want := r.Counts, m.naiveCounts()
	got.InFlight, want.InFlight = got.InFlight+got.Dead, want.InFlight+want.Dead
	got.Dead, want.Dead = 0, 0
	must.Equal(m.t, cmp.Diff(want, got), "", "counts differ: lost: %v\n%v", r.Losses, m)
	must.Equal(m.t, got.Accepted, got.Delivered+got.Failed+got.Skipped+got.Rejected+got.InFlight+got.Lost,
		"the equation does not hold: %v", r.Counts)
}

// work is a chain and the position of its only uncommitted record.
type work struct {
	chain
	at     stream.Partition
	offset int64
}

// soleOpenWork returns the open chains that have a single uncommitted record.
func (m *model) soleOpenWork() (all []work) {
	// ambiguous: uncommitted work may be of any chain of the event
	places, ambiguous := map[chain][]work{}, map[id.ID]bool{}
	at, offsets := m.undone()
	for i, p := range at {
		r := m.log.records[p][offsets[i]]
		if p.Topic != stream.Events {
			w, err := event.DecodeWork(r)
			remains, _ := event.Salvage(r)
			if err != nil && !remains.FromWork {
				ambiguous[remains.Event] = true
				continue
			}
			c := chain{remains.Event, remains.Dests[0], remains.Run}
			if err == nil {
				c = chain{w.Event.ID, w.Dest, w.Run}
			}
			places[c] = append(places[c], work{c, p, offsets[i]})
			continue
		}
		if e, err := event.Decode(r); err == nil && e.Verdict != event.VerdictRejected && e.DuplicateOf == "" {
			for _, dest := range e.Dests {
				c := chain{e.ID, dest, ""}
				places[c] = append(places[c], work{c, p, offsets[i]})
			}
		}
	}
	ended := map[chain]bool{}
	for i := range m.log.partitions {
		for _, r := range m.log.records[stream.Partition{Topic: stream.Outcomes, Index: i}] {
			o := must.Get(event.DecodeOutcome(r))(m.t)
			if o.Status.Terminal() {
				ended[chain{o.Event, o.Dest, o.Run}] = true
			}
		}
	}
	for c, w := range places {
		if len(w) == 1 && !ended[c] && !ambiguous[c.event] && !m.deadLettered(c.event) {
			all = append(all, w[0])
		}
	}
	slices.SortFunc(all, func(a, b work) int { return slices.Compare(a.event[:], b.event[:]) })
	return all
}

// deadLettered reports whether a dead letter of the event does not name its chain: it may have been that of any.
func (m *model) deadLettered(of id.ID) bool {
	for _, r := range m.log.records[stream.Partition{Topic: stream.Dead, Index: of.Partition()}] {
		if remains, _ := event.Salvage(r); remains.Event == of {
			return true
		}
	}
	return false
}

// Lost work is found and named, and nothing else is: a record that the log loses, and a commit that passes a record
// which was not completed.
func TestLostWorkIsNamed(t *testing.T) {
	eachHistory(t, historyCount(25), func(t *testing.T, m *model) {
		for range 150 + m.r.IntN(200) {
			m.step()
		}
		m.crash() // otherwise the work could be in a dispatcher's memory
		candidates := m.soleOpenWork()
		if len(candidates) == 0 {
			t.Log("this history has no delivery that could be lost")
			return
		}
		w := candidates[m.r.IntN(len(candidates))]
		want := map[chain]bool{w.chain: true}
		if m.r.IntN(2) == 0 && strings.HasPrefix(w.at.Topic, "retry.") {
			m.log.records[w.at][w.offset] = nil // what is accepted in it would be gone with a record of the other topics
		}
		// A wrong commit loses all records before it too.
		m.log.commits[w.at] = stream.Commit{Offset: max(m.log.commits[w.at].Offset, w.offset+1)}
		m.crash()
		for _, c := range candidates {
			if c.at == w.at && c.offset <= w.offset {
				want[c.chain] = true
			}
		}
		check := func(when string) {
			t.Helper()
			r := m.mustAudit(Span{})
			got := map[chain]bool{}
			for _, l := range r.Losses {
				got[chain{l.Event, l.Dest, l.Run}] = true
			}
			for c := range want {
				if !got[c] && !m.deadLettered(c.event) {
					t.Errorf("%s: %v was lost and is not named; lost: %v", when, c, r.Losses)
				}
			}
			if r.Lost > len(r.Losses) {
				t.Errorf("%s: lost %d, %d named", when, r.Lost, len(r.Losses))
			}
		}
		check("at once")
		m.settle()
		check("when quiet")
	})
}
