package stream

import (
	"cmp"
	"slices"
	"sync"
)

// turns is the order of the partitions in a fetch: those first that have waited longest. A fetch is bounded, so that
// what stands last in it may get nothing, and a batch that is larger than what a fetch brings of a partition comes only
// where it stands first. The client's own order begins one partition further each time, resting ones included: a quiet
// partition behind a busy one would wait for as many fetches as there are partitions between the two.
type turns struct {
	mu    sync.Mutex // guards the rest: Poll writes, the client's goroutine that fetches reads
	round uint64
	last  map[string]map[int32]uint64 // the round of its last turn, by topic as the brokers call it
}

func newTurns() *turns { return &turns{last: make(map[string]map[int32]uint64)} }

// begin starts the round of the answers that follow.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
}

// had notes that a partition had its turn: records of it came, or it has none.
func (t *turns) had(topic string, partition int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[topic] == nil {
		t.last[topic] = make(map[int32]uint64)
	}
	t.last[topic][partition] = t.round
}

// order is a kgo.PreferLagFn. A request names topic by topic, so that topics stand by the partition of theirs that has
// waited longest. Those that have waited equally long stay as they are.
func (t *turns) order(_ map[string]map[int32]int64, topics []string, partitions map[string][]int32) (
	[]string, map[string][]int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.equal(topics, partitions) {
		return nil, nil // as they are
	}
	oldest, sorted := make(map[string]uint64, len(topics)), make(map[string][]int32, len(topics))
	for _, topic := range topics {
		last, ps := t.last[topic], slices.Clone(partitions[topic])
		slices.SortStableFunc(ps, func(a, b int32) int { return cmp.Compare(last[a], last[b]) })
		oldest[topic], sorted[topic] = last[ps[0]], ps
	}
	return slices.SortedStableFunc(slices.Values(topics), func(a, b string) int {
		return cmp.Compare(oldest[a], oldest[b])
	}), sorted
}

// equal reports whether all have waited equally long.
func (t *turns) equal(topics []string, partitions map[string][]int32) bool {
	first := true
	var round uint64
	for _, topic := range topics {
		last := t.last[topic]
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
