package stream

import (
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How long patient topics are left out between two looks at them: minPause after one that brought records, and twice
// as long after each that brought none, up to maxPause. What gathers in a long rest is read at once, and whoever
// reads it has that much to do at once: where much comes, looks are frequent.
const (
	minPause = 8 * time.Millisecond
	maxPause = 256 * time.Millisecond
)

// A rest leaves a group's patient topics out of most of its fetches. Each partition in a fetch costs broker and
// client some microseconds, empty or not, and a busy group fetches hundreds of times a second.
//
// The topics rest together: a while left out, then awake until every broker has been asked for them and had
// nothing. While they have records, or while the caller has paused one of their partitions and will want it back
// at once, they stay awake. A group that nothing comes to waits in its fetches and needs no rest.
type fetchPause struct {
	cl        pauser
	topics    []string
	contains  map[string]bool // topics
	pollLimit int             // of records a poll: when it is reached, more may be at hand

	mu           sync.Mutex // guards the two below, which hooks and callers touch
	fetches      map[int32]int
	callerPaused map[Partition]bool // partitions of these topics that the caller has paused

	// Used by Poll alone.
	pausedUntil     time.Time     // of the rest; zero while awake
	nextLength      time.Duration // of the next rest
	fetchesAtResume map[int32]int // fetches when the topics woke, or last had records
	drained         bool          // every broker has answered a fetch with them, which the poll that follows will show
}

// pauser is what a rest does to its client.
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

// hold notes what the caller pauses and resumes.
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

// next is called before a poll. It returns when the poll must be over, zero for no limit.
func (r *fetchPause) pollDeadline(now time.Time) time.Time {
	if len(r.topics) == 0 {
		return time.Time{}
	}
	if !r.pausedUntil.IsZero() {
		if now.Before(r.pausedUntil) {
			return r.pausedUntil
		}
		r.cl.ResumeFetchTopics(r.topics...)
		r.pausedUntil = time.Time{}
		r.dropSilentBrokers()
		r.restartCount()
	}
	return time.Time{}
}

// forget drops brokers that have answered nothing since the topics last woke: they may be gone. One that is not
// counts again from its next answer on.
func (r *fetchPause) dropSilentBrokers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.fetches, func(broker int32, n int) bool {
		before, known := r.fetchesAtResume[broker]
		return known && n == before
	})
}

// awake begins to wait for fetches that bring the topics' records.
func (r *fetchPause) restartCount() {
	r.mu.Lock()
	r.fetchesAtResume = maps.Clone(r.fetches)
	r.mu.Unlock()
	r.drained = false
}

// polled is told after a poll how many records came, and how many of the patient topics.
func (r *fetchPause) afterPoll(now time.Time, all, patient int) {
	switch {
	case len(r.topics) == 0 || !r.pausedUntil.IsZero():
	case patient > 0:
		r.nextLength = minPause
		r.restartCount()
	case all >= r.pollLimit:
		r.restartCount()
	case !r.allBrokersAnswered():
	case !r.drained:
		r.drained = true // what came with those fetches may still be at hand
	default:
		r.cl.PauseFetchTopics(r.topics...)
		r.pausedUntil = now.Add(r.nextLength)
		r.nextLength = min(2*r.nextLength, maxPause)
	}
}

// answered reports whether every broker that this group fetches from has answered two fetches since the topics woke:
// the first may have been on its way before.
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
