package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// rejectionWindow is over how long refused signatures are counted; without any for as long, all is well again.
const rejectionWindow = 5 * time.Minute

// book is the picture of one partition.
type book struct {
	partition int32
	tracks    map[string]*track    // by destination
	gates     map[string]*gate     // by endpoint: those that had signatures refused
	whole     time.Time            // since when all outcomes were seen; zero = always
	begins    bool                 // with the next record that is read: whole is then its time
	at        map[string]int64     // by topic: up to where it was read
	time      map[string]time.Time // by topic: of the youngest thing that it told of, by the time of the cluster
	end       map[string]int64     // by topic: where the log ended when the book was begun
}

// gate counts the refused signatures of one endpoint.
type gate struct {
	rejected window
	since    time.Time // when the counting began: what was before is not known
}

func newBook(partition int32) *book {
	return &book{partition: partition, tracks: map[string]*track{}, gates: map[string]*gate{}, at: map[string]int64{},
		time: map[string]time.Time{}, end: map[string]int64{}}
}

func (b *book) place(topic string) place { return place{b.partition, b.at[topic]} }

// outcome takes a record of outcomes in and returns the destination it speaks of. told reports whether the rules may
// say something else since.
func (b *book) outcome(r *stream.Record, span time.Duration) (dest string, k *track, told bool, err error) {
	w, err := event.DecodeOutcomeHead(r)
	if err != nil {
		return "", nil, false, err
	}
	b.reached(stream.Outcomes, w.At)
	k = b.tracks[string(w.Dest)]
	if k == nil {
		k = &track{endpoint: string(r.Key)}
		b.tracks[string(w.Dest)] = k
	}
	first := !k.ended
	was := k.failures > 0 || k.failed != "" || len(k.open) > 0 || !k.held.IsZero()
	k.observe(&w, span)
	return string(w.Dest), k, was || first || k.failures > 0 || k.failed != "", nil
}

// event takes a record of events in.
func (b *book) event(r *stream.Record, now time.Time) error {
	h, err := event.DecodeHead(r)
	if err != nil {
		return err
	}
	b.reached(stream.Events, h.ID.Time())
	if h.Verdict != event.VerdictRejected {
		return nil
	}
	b.gate(string(r.Key), now).rejected.add(h.ID.Time(), false)
	return nil
}

func (b *book) reached(topic string, t time.Time) {
	if t.After(b.time[topic]) {
		b.time[topic] = t
	}
}

// gate returns that of an endpoint, a new one if need be.
func (b *book) gate(endpoint string, now time.Time) *gate {
	g := b.gates[endpoint]
	if g == nil {
		g = &gate{rejected: window{span: rejectionWindow}, since: now}
		b.gates[endpoint] = g
	}
	return g
}

func (g *gate) judge(now time.Time, threshold int) finding {
	f := finding{rule: verificationFailed, threshold: threshold}
	_, n := g.rejected.sum(now)
	f.value = n
	switch {
	case n >= threshold:
		f.result = bad
	case n == 0 && now.Sub(g.since) >= rejectionWindow:
		f.result = good
	}
	return f
}

// sweep lets go of destinations and endpoints of which there is nothing to tell, by up to when outcomes and events are
// known.
func (b *book) sweep(outcomes, events time.Time) {
	for dest, k := range b.tracks {
		if ok, _ := k.sum(outcomes); ok == 0 && !k.troubled(outcomes) && k.goneAt.IsZero() {
			delete(b.tracks, dest)
		}
	}
	for endpoint, g := range b.gates {
		if _, n := g.rejected.sum(events); n == 0 && events.Sub(g.since) > rejectionWindow+10*beat {
			delete(b.gates, endpoint)
		}
	}
}
