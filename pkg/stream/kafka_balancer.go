package stream

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shardBalancer is kgo.RangeBalancer, with partitions in the order of their shards: partition p belongs to shard p mod
// shards. So a member has partitions of few shards.
type shardBalancer struct {
	kgo.GroupBalancer
	shards int32
}

func (shardBalancer) ProtocolName() string { return "relay-shards" }

func (b shardBalancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (
	kgo.GroupMemberBalancer, map[string]struct{}, error) {
	c, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err
	}
	return c, c.MemberTopics(), nil
}

// Balance gives each member a part of all topics, in the same way for topics with equally many partitions. All members
// read the same topics.
func (b shardBalancer) Balance(c *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := c.NewPlan()
	members := slices.Clone(c.Members())
	slices.SortFunc(members, func(x, y kmsg.JoinGroupResponseMember) int { return cmp.Compare(nameOf(x), nameOf(y)) })
	for topic, n := range topics {
		next := int32(0)
		for shard := range b.shards {
			for p := shard; p < n; p += b.shards {
				plan.AddPartition(&members[int64(next)*int64(len(members))/int64(n)], topic, p)
				next++
			}
		}
	}
	return plan
}

// nameOf is the name of a member that stays the same when it restarts, if it has one.
func nameOf(m kmsg.JoinGroupResponseMember) string {
	if m.InstanceID != nil {
		return *m.InstanceID
	}
	return m.MemberID
}
