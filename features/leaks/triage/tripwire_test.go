package triage

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/must"
)

// A tripwire whose key was only seen is announced again when it is used, and then once an hour at most while that goes
// on, also after people have acknowledged it. Hits that are read again send nothing, nor do tests, which have a finding
// of their own and do not trip it.
func TestTripwireIsAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		one, two := r.triage(0), r.triage(1)
		after := time.Duration(0)
		now := func() time.Time { return time.Now().Add(after) }
		one.deps.Now, two.deps.Now = now, now
		wire, _, err := r.nodes[0].CreateTripwire(t.Context(), &leak.Tripwire{
			Meta:   entity.Meta{ID: "trw_1", Account: r.nodes[0].Account().ID},
			Domain: "dom_1", Kind: leak.TripwireKey, Label: "decoy", CreatedBy: "key_1",
		})
		must.Do(t, err)
		hit := func(source finding.Source, test bool) *finding.Hit {
			return r.hit("canary", func(h *finding.Hit) {
				h.Source, h.Test, h.At, h.ObservedAt = source, test, now(), now()
				intake.SetTripwire(h, wire, &r.keys)
			})
		}
		status := func(want string) {
			t.Helper()
			r.finding("") // both nodes have what was written
			if x, _ := r.nodes[1].Tripwire(wire.ID); x.Status() != want {
				t.Errorf("the tripwire is %s, want %s", x.Status(), want)
			}
		}
		test := hit(finding.FromTripwire, true)
		r.decideHits(one, test)
		r.wantMessages(test.Finding, "")
		status(leak.TripwireArmed)

		seen := hit(finding.Drain, false)
		id := seen.Finding
		r.decideHits(one, seen, seen)
		r.wantMessages(id, "opened")
		status(leak.TripwireTripped)
		after += 2 * time.Hour
		r.decideHits(one, hit(finding.Drain, false))
		r.wantMessages(id, "opened") // it is still only seen

		r.decideHits(one, hit(finding.FromTripwire, false), hit(finding.FromTripwire, false))
		want := "opened opened"
		r.wantMessages(id, want)
		for range 2 {
			after += 50 * time.Minute
			r.decideHits(one, hit(finding.FromTripwire, false), hit(finding.Drain, false))
			r.wantMessages(id, want)
			after += 15 * time.Minute
			again := hit(finding.FromTripwire, false)
			r.decideHits(one, again, again, seen)
			r.finding(id) // both nodes have it
			r.decideHits(two, again)
			want += " continued"
			r.wantMessages(id, want)
			to := finding.Acknowledged
			r.update(id, leak.FindingUpdate{Status: &to})
		}
	})
}
