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
)

// mustAudit audits everything that the model's log holds.
func (m *model) mustAudit(span Span) Report {
	m.t.Helper()
	r, err := audit(m.t.Context(), m.log, span, m.now.Add(time.Second))
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// histories is how many random ones are played; ten times as many under torture.
func histories(n uint64) uint64 {
	if os.Getenv("RELAY_TORTURE") != "" {
		return 10 * n
	}
	return n
}

// eachHistory runs a random history per seed; a failure names the seed.
func eachHistory(t *testing.T, n uint64, f func(t *testing.T, m *model)) {
	for seed := range n {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { f(t, newModel(t, seed)) }) {
			return
		}
	}
}

// Whatever happens, and while it happens: nothing is called lost that is not, and the counts are those of
// the naive model when nothing moves.
func TestAuditOfRandomHistories(t *testing.T) {
	eachHistory(t, histories(25), func(t *testing.T, m *model) {
		for range 4 {
			for range 100 + m.r.IntN(200) {
				m.step()
			}
			m.moving(func() {
				if r := m.mustAudit(Span{}); r.Residue != 0 {
					t.Fatalf("false residue while traffic flows: %v\n%v\n%v", r.Counts, r.Lost, m)
				}
			})
			m.same(m.mustAudit(Span{}))
		}
		m.settle()
		r := m.mustAudit(Span{})
		m.same(r)
		if r.InFlight != 0 || r.UndecodableOutcomes != 0 {
			t.Errorf("after everything has come to its end: %v", r)
		}
	})
}

// same compares with the naive count. Work in the topic dead that did not name its delivery is in flight for
// the naive one, which does not look there.
func (m *model) same(r Report) {
	m.t.Helper()
	got, want := r.Counts, m.count()
	got.InFlight, want.InFlight = got.InFlight+got.Dead, want.InFlight+want.Dead
	got.Dead, want.Dead = 0, 0
	if d := cmp.Diff(want, got); d != "" {
		m.t.Fatalf("counts differ: %s\nlost: %v\n%v", d, r.Lost, m)
	}
	if got.Accepted != got.Delivered+got.Failed+got.Skipped+got.Rejected+got.InFlight+got.Residue {
		m.t.Fatalf("the equation does not hold: %v", r.Counts)
	}
}

// work is a chain and where its only undone record stands.
type work struct {
	chain
	at     stream.Partition
	offset int64
}

// lonely finds open chains that a single undone record speaks for.
func (m *model) lonely() (all []work) {
	places, murky := map[chain][]work{}, map[id.ID]bool{} // murky: undone work may be of any chain of the event
	at, offsets := m.undone()
	for i, p := range at {
		r := m.log.records[p][offsets[i]]
		if p.Topic != stream.Events {
			w, err := event.DecodeWork(r)
			remains, _ := event.Salvage(r)
			if err != nil && !remains.FromWork {
				murky[remains.Event] = true
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
			o, err := event.DecodeOutcome(r)
			if err != nil {
				m.t.Fatal(err)
			}
			if o.Status.Terminal() {
				ended[chain{o.Event, o.Dest, o.Run}] = true
			}
		}
	}
	for c, w := range places {
		if len(w) == 1 && !ended[c] && !murky[c.event] && !m.buried(c.event) {
			all = append(all, w[0])
		}
	}
	slices.SortFunc(all, func(a, b work) int { return slices.Compare(a.event[:], b.event[:]) })
	return all
}

// buried reports whether work of the event that does not say whose it was lies in the topic dead: it may have
// been that of any chain.
func (m *model) buried(of id.ID) bool {
	for _, r := range m.log.records[stream.Partition{Topic: stream.Dead, Index: of.Partition()}] {
		if remains, _ := event.Salvage(r); remains.Event == of {
			return true
		}
	}
	return false
}

// What is lost is found and named, and nothing else is: a record that the log loses, and a commit that passes
// a record which was not done.
func TestLostWorkIsNamed(t *testing.T) {
	eachHistory(t, histories(25), func(t *testing.T, m *model) {
		for range 150 + m.r.IntN(200) {
			m.step()
		}
		m.crash() // or the work would be in somebody's memory
		candidates := m.lonely()
		if len(candidates) == 0 {
			t.Log("this history has no delivery that could be lost")
			return
		}
		w := candidates[m.r.IntN(len(candidates))]
		want := map[chain]bool{w.chain: true}
		if m.r.IntN(2) == 0 && strings.HasPrefix(w.at.Topic, "retry.") {
			m.log.records[w.at][w.offset] = nil // what is accepted in it would be gone with a record of the other topics
		}
		// All before it are lost too, by a commit that should not have been made.
		m.log.marks[w.at] = stream.Commit{Offset: max(m.log.marks[w.at].Offset, w.offset+1)}
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
			for _, l := range r.Lost {
				got[chain{l.Event, l.Dest, l.Run}] = true
			}
			for c := range want {
				if !got[c] && !m.buried(c.event) {
					t.Errorf("%s: %v was lost and is not named; lost: %v", when, c, r.Lost)
				}
			}
			if r.Residue > len(r.Lost) {
				t.Errorf("%s: residue %d, %d named", when, r.Residue, len(r.Lost))
			}
		}
		check("at once")
		m.settle()
		check("when quiet")
	})
}
