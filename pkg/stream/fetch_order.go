package stream

import (
	"cmp"
	"slices"
	"sync"
)

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
