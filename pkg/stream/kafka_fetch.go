package stream

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How long delay-tolerant topics are left out of fetches. The first pause after records of theirs were read lasts
// minPause. Each further pause without such records in between is twice as long, up to maxPause. So the pauses of
// topics with many records stay short: all records that arrive in a pause are read at once, and the caller must process
// them at once.
const (
	minPause = 8 * time.Millisecond
	maxPause = 256 * time.Millisecond
	// drainLimit is how long these topics may take to be drained. If it takes longer, the group makes so few fetches that
	// leaving the topics out would cost more: while they are paused, fetches do not wait for long.
	drainLimit = time.Second
)

// fetchPause leaves a group's delay-tolerant topics out of most of its fetches. Each partition in a fetch costs broker
// and client some microseconds, even without records, and a busy group makes hundreds of fetches a second.
//
// All these topics are paused together, then fetched until every broker has answered without a record of theirs. They
// are not paused while they have records, or while the caller has paused one of their partitions, which it will soon
// resume. A group whose topics are all quiet needs no pause: its fetches wait at the brokers, so it makes few.
type fetchPause struct {
	cl        pauser
	topics    []string        // with the prefix
	contains  map[string]bool // the same topics, without the prefix
	pollLimit int             // most records of a poll: with that many, the client may have more

	mu           sync.Mutex         // guards fetches and callerPaused
	fetches      map[int32]int      // answered fetches by broker
	callerPaused map[Partition]bool // of the delay-tolerant topics

	// Used by Poll alone.
	pausedUntil     time.Time     // zero while the topics are fetched
	countingSince   time.Time     // when fetchesAtResume was set
	nextLength      time.Duration // of the next pause
	fetchesAtResume map[int32]int // fetches when the topics were resumed, or last had records
	// drained: every broker has answered a fetch with these topics, and the next poll returns the last records.
	drained bool
}

// pauser pauses and resumes topics; a kgo.Client does.
type pauser interface {
	PauseFetchTopics(topics ...string) []string
	ResumeFetchTopics(topics ...string)
}

func newFetchPause(prefix string, topics []string, limit int) *fetchPause {
	r := &fetchPause{contains: make(map[string]bool), pollLimit: limit, nextLength: maxPause, fetches: make(map[int32]int),
		callerPaused: make(map[Partition]bool)}
	for _, t := range topics {
		r.topics = append(r.topics, prefix+t)
		r.contains[t] = true
	}
	return r
}

// OnBrokerE2E counts the fetches that each broker has answered.
func (r *fetchPause) OnBrokerE2E(b kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if kmsg.Key(key) != kmsg.Fetch || e.Err() != nil {
		return
	}
	r.mu.Lock()
	r.fetches[b.NodeID]++
	r.mu.Unlock()
}

// setCallerPaused records which partitions the caller pauses and resumes.
func (r *fetchPause) setCallerPaused(ps []Partition, paused bool) {
	if len(r.topics) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range ps {
		switch {
		case !r.contains[p.Topic]:
		case paused:
			r.callerPaused[p] = true
		default:
			delete(r.callerPaused, p)
		}
	}
}

// pollDeadline is called before a poll. It resumes the topics if their pause is over, and returns when the poll must
// end so that they can be resumed; zero for no limit.
func (r *fetchPause) pollDeadline(now time.Time) time.Time {
	if len(r.topics) == 0 {
		return time.Time{}
	}
	if r.countingSince.IsZero() {
		r.countingSince = now
	}
	if !r.pausedUntil.IsZero() {
		if now.Before(r.pausedUntil) {
			return r.pausedUntil
		}
		r.cl.ResumeFetchTopics(r.topics...)
		r.pausedUntil = time.Time{}
		r.dropSilentBrokers()
		r.restartCount(now)
	}
	return time.Time{}
}

// dropSilentBrokers forgets brokers that have answered nothing since the topics were last resumed: they may be gone. A
// broker counts again from its next answer on.
func (r *fetchPause) dropSilentBrokers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.fetches, func(broker int32, n int) bool {
		before, known := r.fetchesAtResume[broker]
		return known && n == before
	})
}

// restartCount starts counting anew how many fetches with these topics each broker answers.
func (r *fetchPause) restartCount(now time.Time) {
	r.mu.Lock()
	r.fetchesAtResume = maps.Clone(r.fetches)
	r.mu.Unlock()
	r.countingSince, r.drained = now, false
}

// afterPoll is called after a poll with the number of its records, and of those from delay-tolerant topics. It pauses
// the topics when they have no more records.
func (r *fetchPause) afterPoll(now time.Time, all, tolerant int) {
	switch {
	case len(r.topics) == 0 || !r.pausedUntil.IsZero():
	case tolerant > 0:
		r.nextLength = minPause
		r.restartCount(now)
	case all >= r.pollLimit, now.Sub(r.countingSince) > drainLimit:
		r.restartCount(now)
	case !r.allBrokersAnswered():
	case !r.drained:
		r.drained = true // the client may still hold records of those fetches
	default:
		r.cl.PauseFetchTopics(r.topics...)
		r.pausedUntil = now.Add(r.nextLength)
		r.nextLength = min(2*r.nextLength, maxPause)
	}
}

// allBrokersAnswered reports whether every broker that this group fetches from has answered two fetches since the
// topics were resumed: the first may have been sent before. It returns false while the caller has paused a partition of
// these topics, and before any broker has answered.
func (r *fetchPause) allBrokersAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for broker, n := range r.fetches {
		if n < r.fetchesAtResume[broker]+2 {
			return false
		}
	}
	return len(r.callerPaused) == 0 && len(r.fetches) > 0
}

// fetchOrder orders the partitions in a fetch request: the one that has waited longest comes first. The size of a fetch
// is bounded, so a broker may return nothing of the last partitions. It returns a batch larger than MaxPartitionBytes
// only for the first partition that has records (KIP-74).
//
// The client's own order starts each fetch one partition later than the fetch before, and counts paused partitions too.
// With it a quiet partition that follows a busy one would wait for many fetches: as many as there are partitions
// between the two.
type fetchOrder struct {
	mu         sync.Mutex // guards round and lastServed: Poll writes them, the client's fetching goroutine reads them
	round      uint64
	lastServed map[string]map[int32]uint64 // round in which a partition was last served, by topic with its prefix
}

func newFetchOrder() *fetchOrder { return &fetchOrder{lastServed: make(map[string]map[int32]uint64)} }

// startRound begins the round of the fetches that the next poll returns.
func (t *fetchOrder) startRound() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
}

// markServed records that a partition was served in this round: records of it came, or it has none.
func (t *fetchOrder) markServed(topic string, partition int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastServed[topic] == nil {
		t.lastServed[topic] = make(map[int32]uint64)
	}
	t.lastServed[topic][partition] = t.round
}

// prefer is a kgo.PreferLagFn. A request lists partitions topic by topic, so topics are ordered by their partition that
// has waited longest. Equal ones keep their order.
func (t *fetchOrder) prefer(_ map[string]map[int32]int64, topics []string, partitions map[string][]int32) (
	[]string, map[string][]int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.allEqual(topics, partitions) {
		return nil, nil // as they are
	}
	oldest, sorted := make(map[string]uint64, len(topics)), make(map[string][]int32, len(topics))
	for _, topic := range topics {
		last, ps := t.lastServed[topic], slices.Clone(partitions[topic])
		slices.SortStableFunc(ps, func(a, b int32) int { return cmp.Compare(last[a], last[b]) })
		oldest[topic], sorted[topic] = last[ps[0]], ps
	}
	return slices.SortedStableFunc(slices.Values(topics), func(a, b string) int {
		return cmp.Compare(oldest[a], oldest[b])
	}), sorted
}

// allEqual reports whether all partitions have waited equally long.
func (t *fetchOrder) allEqual(topics []string, partitions map[string][]int32) bool {
	first := true
	var round uint64
	for _, topic := range topics {
		last := t.lastServed[topic]
		for _, p := range partitions[topic] {
			if first {
				first, round = false, last[p]
			} else if last[p] != round {
				return false
			}
		}
	}
	return true
}

const (
	// rateSpan is how long records are counted before the rate is computed.
	rateSpan = 10 * time.Millisecond
	// highRate is the number of records a second from which on they share requests: two or more arrive in each
	// unorderedLinger.
	highRate = 2000
)

// recordRate reports whether records arrive fast. Its methods may be called concurrently; a record that is counted into
// a neighbouring span does no harm.
type recordRate struct {
	spanStart atomic.Int64 // in nanoseconds of an arbitrary clock
	count     atomic.Int64 // in the span
	high      atomic.Bool  // in the last span
}

// countRecord counts a record that arrives at now, a time of the same clock in every call, and reports whether records
// arrive fast.
func (t *recordRate) countRecord(now time.Duration) bool {
	began := t.spanStart.Load()
	if span := now - time.Duration(began); span >= rateSpan && t.spanStart.CompareAndSwap(began, int64(now)) {
		t.high.Store(float64(t.count.Swap(0)) >= highRate*span.Seconds())
	}
	t.count.Add(1)
	return t.high.Load()
}
