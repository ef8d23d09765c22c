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
	failures      FailureCounter               // nil: nothing counts them
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
func (part *partitionState) position(topic string) logPosition {
	return logPosition{part.partition, part.nextOffset[topic]}
}

// addOutcome adds a record of the topic outcomes and returns its destination. changed reports whether the rules may
// give another result than before. span is the window of the failure rate.
func (part *partitionState) addOutcome(r *stream.Record, span time.Duration) (
	destID string, dest *destinationState, changed bool, err error) {
	outcome, err := event.DecodeOutcomeHead(r)
	if err != nil {
		return "", nil, false, err
	}
	part.setLatest(stream.Outcomes, outcome.At)
	if part.failures != nil {
		part.failures.Count(&outcome, string(r.Key), r.Offset)
	}
	dest = part.destinations[string(outcome.Dest)]
	if dest == nil {
		dest = &destinationState{endpoint: string(r.Key)}
		part.destinations[string(outcome.Dest)] = dest
	}
	first := !dest.hasResult
	was := dest.failures > 0 || dest.failedReason != "" || len(dest.open) > 0 || !dest.heldSince.IsZero()
	dest.observe(&outcome, span)
	return string(outcome.Dest), dest, was || first || dest.failures > 0 || dest.failedReason != "", nil
}

// succeededAt returns when a destination has last worked, zero if that is not known.
func (part *partitionState) succeededAt(destination string) time.Time {
	if dest := part.destinations[destination]; dest != nil {
		return dest.succeededAt
	}
	return time.Time{}
}

// addEvent adds a record of the topic events. Only rejected events count.
func (part *partitionState) addEvent(r *stream.Record, now time.Time) error {
	h, err := event.DecodeHead(r)
	if err != nil {
		return err
	}
	part.setLatest(stream.Events, h.ID.Time())
	if h.Verdict != event.VerdictRejected {
		return nil
	}
	part.rejectionsOf(string(r.Key), now).rejected.add(h.ID.Time(), false)
	return nil
}

func (part *partitionState) setLatest(topic string, t time.Time) {
	if t.After(part.latest[topic]) {
		part.latest[topic] = t
	}
}

// rejectionsOf returns the counter of an endpoint and creates it if needed.
func (part *partitionState) rejectionsOf(endpoint string, now time.Time) *rejectionCounter {
	counter := part.rejections[endpoint]
	if counter == nil {
		counter = &rejectionCounter{rejected: window{span: rejectionWindow}, since: now}
		part.rejections[endpoint] = counter
	}
	return counter
}

// evaluate evaluates the rule verification_failed.
func (c *rejectionCounter) evaluate(now time.Time, threshold int) evaluation {
	f := evaluation{rule: verificationFailed, threshold: threshold}
	_, n := c.rejected.sum(now)
	f.value = n
	switch {
	case n >= threshold:
		f.result = bad
	case n == 0 && now.Sub(c.since) >= rejectionWindow:
		f.result = good
	}
	return f
}

// sweep drops the state of destinations and endpoints that no rule needs any more. outcomes and events are the times up
// to which these topics are known.
func (part *partitionState) sweep(outcomes, events time.Time) {
	for destID, dest := range part.destinations {
		if ok, _ := dest.attempts(outcomes); ok == 0 && !dest.needsEvaluation(outcomes) && dest.goneAt.IsZero() {
			delete(part.destinations, destID)
		}
	}
	// A counter is kept for ten ticks more than the window, so that its rule is evaluated as good, which resolves the
	// alert. A new counter would have no result for a whole window.
	for endpoint, counter := range part.rejections {
		if _, n := counter.rejected.sum(events); n == 0 && events.Sub(counter.since) > rejectionWindow+10*tickEvery {
			delete(part.rejections, endpoint)
		}
	}
}
