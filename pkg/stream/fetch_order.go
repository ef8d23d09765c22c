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
type fetchOrder struct {
	mu         sync.Mutex // guards the rest: Poll writes, the client's goroutine that fetches reads
	round      uint64
	lastServed map[string]map[int32]uint64 // the round of its last turn, by topic as the brokers call it
}

func newFetchOrder() *fetchOrder { return &fetchOrder{lastServed: make(map[string]map[int32]uint64)} }

// begin starts the round of the answers that follow.
func (t *fetchOrder) startRound() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
}

// had notes that a partition had its turn: records of it came, or it has none.
func (t *fetchOrder) markServed(topic string, partition int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastServed[topic] == nil {
		t.lastServed[topic] = make(map[int32]uint64)
	}
	t.lastServed[topic][partition] = t.round
}

// order is a kgo.PreferLagFn. A request names topic by topic, so that topics stand by the partition of theirs that has
// waited longest. Those that have waited equally long stay as they are.
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

// equal reports whether all have waited equally long.
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
