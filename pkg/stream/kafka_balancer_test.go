package stream

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// Two members on two shards have one shard each, of all topics, and one in the order of partitions beside a member that
// does not know shards. Either way each partition has one owner.
func TestMembersHaveFewShards(t *testing.T) {
	t.Parallel()
	for name, shards := range map[string][]int{"shards": {2, 2}, "beside the version before": {2, 0}} {
		t.Run(name, func(t *testing.T) {
			cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
			defer cluster.Close()
			c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
			must.Get(Migrate(t.Context(), c, 8, 1))(t)
			var mu sync.Mutex
			owned := []map[Partition]bool{{}, {}}
			ctx, stop := context.WithCancel(t.Context())
			var polling sync.WaitGroup
			defer polling.Wait()
			defer stop()
			for i := range owned {
				leave := func(ps []Partition) {
					mu.Lock()
					defer mu.Unlock()
					for _, p := range ps {
						delete(owned[i], p)
					}
				}
				g := must.Get(NewGroup(c, GroupConfig{Name: "g", Topics: []string{Events, Outcomes}, Shards: shards[i],
					Assigned: func(commits map[Partition]Commit) {
						mu.Lock()
						defer mu.Unlock()
						for p := range commits {
							owned[i][p] = true
						}
					}, Revoked: func(_ context.Context, ps []Partition) { leave(ps) }, Lost: leave}))(t)
				polling.Go(func() {
					defer g.Close()
					for ctx.Err() == nil {
						_ = g.Poll(ctx, func(Partition, []*Record) {}) // until ctx ends
					}
				})
			}
			kit.WaitFor(t, "an assignment of eight partitions of two topics to each member", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(owned[0]) == 8 && len(owned[1]) == 8
			})
			mu.Lock()
			defer mu.Unlock()
			of := make(map[int32]int) // by shard: bits of its owners
			for i, ps := range owned {
				for p := range maps.Keys(ps) {
					of[p.Index%2] |= 1 << i
					if other := (Partition{Events, p.Index}); !ps[other] {
						t.Errorf("%v and %v have two owners", p, other)
					}
				}
			}
			is.Equal(t, of[0]&of[1] == 0, shards[1] > 0, "owners by shard: %b", of)
		})
	}
}
