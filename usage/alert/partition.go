package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// rejectionWindow is the span over which rejected signatures are counted. The alert resolves after as long without
// any.
const rejectionWindow = 5 * time.Minute

// partitionState is what this node knows of the endpoints and destinations of one partition. It lives in memory and
// is rebuilt from the log by the next owner.
type partitionState struct {
	partition     int32
	destinations  map[string]*destinationState // by destination id
	rejections    map[string]*rejectionCounter // by endpoint id; endpoints with rejected signatures only
	completeSince time.Time                    // outcomes before it may be missing; zero: the record is complete
	pendingStart  bool                         // completeSince becomes the time of the next record that is read
	nextOffset    map[string]int64             // by topic: the offset to read next
	latest        map[string]time.Time         // by topic: the latest time that a record reported
	endAtStart    map[string]int64             // by topic: the end of the log when the state was built
}

// rejectionCounter counts the rejected signatures of one endpoint.
type rejectionCounter struct {
	rejected window
	since    time.Time // when counting began; earlier rejections are unknown
}

func newPartitionState(partition int32) *partitionState {
	return &partitionState{partition: partition, destinations: map[string]*destinationState{},
		rejections: map[string]*rejectionCounter{}, nextOffset: map[string]int64{},
		latest: map[string]time.Time{}, endAtStart: map[string]int64{}}
}

// position returns the position up to which a topic of the partition was read.
func (b *partitionState) position(topic string) logPosition {
	return logPosition{b.partition, b.nextOffset[topic]}
}

// addOutcome adds a record of the topic outcomes and returns its destination. changed reports whether the rules may
// give another result than before. span is the window of the failure rate.
func (b *partitionState) addOutcome(r *stream.Record, span time.Duration) (
	dest string, k *destinationState, changed bool, err error) {
	w, err := event.DecodeOutcomeHead(r)
	if err != nil {
		return "", nil, false, err
	}
	b.setLatest(stream.Outcomes, w.At)
	k = b.destinations[string(w.Dest)]
	if k == nil {
		k = &destinationState{endpoint: string(r.Key)}
		b.destinations[string(w.Dest)] = k
	}
	first := !k.hasResult
	was := k.failures > 0 || k.failedReason != "" || len(k.open) > 0 || !k.heldSince.IsZero()
	k.observe(&w, span)
	return string(w.Dest), k, was || first || k.failures > 0 || k.failedReason != "", nil
}

// addEvent adds a record of the topic events. Only rejected events count.
func (b *partitionState) addEvent(r *stream.Record, now time.Time) error {
	h, err := event.DecodeHead(r)
	if err != nil {
		return err
	}
	b.setLatest(stream.Events, h.ID.Time())
	if h.Verdict != event.VerdictRejected {
		return nil
	}
	b.rejectionsOf(string(r.Key), now).rejected.add(h.ID.Time(), false)
	return nil
}

func (b *partitionState) setLatest(topic string, t time.Time) {
	if t.After(b.latest[topic]) {
		b.latest[topic] = t
	}
}

// rejectionsOf returns the counter of an endpoint and creates it if needed.
func (b *partitionState) rejectionsOf(endpoint string, now time.Time) *rejectionCounter {
	g := b.rejections[endpoint]
	if g == nil {
		g = &rejectionCounter{rejected: window{span: rejectionWindow}, since: now}
		b.rejections[endpoint] = g
	}
	return g
}

// evaluate evaluates the rule verification_failed.
func (g *rejectionCounter) evaluate(now time.Time, threshold int) finding {
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

// sweep drops destinations and endpoints that no rule can say anything about any more. outcomes and events are the
// times up to which these topics are known.
func (b *partitionState) sweep(outcomes, events time.Time) {
	for dest, k := range b.destinations {
		if ok, _ := k.attempts(outcomes); ok == 0 && !k.needsEvaluation(outcomes) && k.goneAt.IsZero() {
			delete(b.destinations, dest)
		}
	}
	for endpoint, g := range b.rejections {
		if _, n := g.rejected.sum(events); n == 0 && events.Sub(g.since) > rejectionWindow+10*tickEvery {
			delete(b.rejections, endpoint)
		}
	}
}
