package ledger

import (
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// naiveCounts counts in the simplest way: of all outcomes of a delivery the latest one decides.
func (m *model) naiveCounts() Counts {
	type result struct {
		ms     int64
		rank   int
		offset int64
		class  class
	}
	latest := map[chain]result{} // by event and destination
	offer := func(c chain, run string, w result) {
		if run != "" {
			d := must.Get(id.Parse(id.Run, run))(m.t)
			w.ms = max(w.ms, d.UnixMilli())
		}
		have, ok := latest[c]
		if !ok || w.ms > have.ms || w.ms == have.ms && (w.rank > have.rank || w.rank == have.rank && w.offset > have.offset) {
			latest[c] = w
		}
	}
	deliveries, tries := map[chain]bool{}, map[chain]map[id.ID]bool{}
	for _, e := range m.accepted {
		if e.Verdict != event.VerdictRejected && e.DuplicateOf == "" {
			for _, dest := range e.Dests {
				deliveries[chain{e.ID, dest, ""}] = true
			}
		}
	}
	ended := map[chain]bool{}
	for i := range m.log.partitions {
		for _, r := range m.log.records[stream.Partition{Topic: stream.Commands, Index: i}] {
			w := must.Get(event.DecodeWork(r))(m.t)
			c := chain{w.Event.ID, w.Dest, ""}
			deliveries[c] = true
			if w.Run != "" {
				offer(c, w.Run, result{offset: -1, class: classInFlight})
			}
		}
		for offset, r := range m.log.records[stream.Partition{Topic: stream.Outcomes, Index: i}] {
			o := must.Get(event.DecodeOutcome(r))(m.t)
			c := chain{o.Event, o.Dest, ""}
			deliveries[c] = true
			w := result{offset: int64(offset), class: classInFlight}
			switch {
			case o.Status == event.Delivered:
				w.rank, w.class, w.ms = 2, classDelivered, o.At.UnixMilli()
			case o.Status == event.Failed && o.Reason == event.Undecodable:
				w.rank, w.class = 1, classDead
			case o.Status == event.Failed:
				w.rank, w.class = 1, classFailed
			case o.Status == event.Skipped:
				w.rank, w.class = 1, classSkipped
			}
			full := chain{o.Event, o.Dest, o.Run}
			ended[full] = ended[full] || w.rank > 0
			if o.Attempt != nil && o.Attempt.OK {
				if tries[full] == nil {
					tries[full] = map[id.ID]bool{}
				}
				tries[full][o.Attempt.ID] = true
			}
			offer(c, o.Run, w)
		}
	}
	var n Counts
	asks := map[id.ID]bool{}
	for c := range deliveries {
		asks[c.event] = true
		class := classInFlight
		if w, ok := latest[c]; ok {
			class = w.class
		}
		n.count(class)
	}
	for _, e := range m.accepted {
		switch {
		case asks[e.ID]:
		case e.Verdict == event.VerdictRejected:
			n.count(classRejected)
		default:
			n.count(classSkipped)
		}
	}
	for range m.poisoned {
		n.count(classDead)
	}
	for _, ids := range tries {
		n.Duplicates += len(ids) - 1
	}
	return n
}
