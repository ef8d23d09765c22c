package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A broker in a process of its own is killed five times at random moments, while clients that outlive it produce,
// consume and commit. Every acknowledged record is at its offset, no committed offset or its metadata goes back, and
// the consumer group goes on.
func TestSIGKILL(t *testing.T) {
	dir, addr := t.TempDir(), fixedAddr(t)
	broker := startBroker(t, addr, dir)
	createTopics(t, addr, 4, nil, "relay.events")

	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var acked sync.Map // record → value
	var produced atomic.Int64
	for producer := range 6 {
		cl := client(t, addr)
		for worker := range 8 {
			load.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					value := fmt.Sprintf("%d-%d-%d %s", producer, worker, i, strings.Repeat("x", 1000))
					r := produce(t, cl, "relay.events", int32(i%4), []byte(value))
					acked.Store(record{r.Topic, r.Partition, r.Offset}, value)
					produced.Add(1)
				}
			})
		}
	}
	c := newCommitter(t, addr)
	load.Go(func() { c.run(ctx) })

	random := kit.Rand(t)
	for range 5 {
		at, commits := produced.Load(), c.commits.Load()
		kit.WaitFor(t, "records and commits since the last kill", func() bool {
			return produced.Load() > at+500 && c.commits.Load() > commits
		})
		time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		broker.kill(t)
		broker = startBroker(t, addr, dir)
	}
	cancel()
	load.Wait()

	cl := client(t, addr, kgo.ConsumeTopics("relay.events"))
	var total int64
	for p := range int32(4) {
		total += endOf(t, cl, "relay.events", p)
	}
	stored := map[record]string{}
	for _, r := range consume(t, cl, int(total)) {
		stored[record{r.Topic, r.Partition, r.Offset}] = string(r.Value)
	}
	acked.Range(func(at, value any) bool {
		if stored[at.(record)] != value {
			t.Errorf("record %v was acknowledged and is not there", at)
		}
		return true
	})
	c.check(t, cl)
	t.Logf("%d records acknowledged, %d stored twice, %d commits", produced.Load(), total-produced.Load(),
		c.commits.Load())
	broker.kill(t)
}

// A committer consumes as a member of a group and commits with metadata.
type committer struct {
	cl      *kgo.Client
	commits atomic.Int64

	mu   sync.Mutex // guards last
	last map[int32]kadm.Offset
}

func newCommitter(tb testing.TB, addr string) *committer {
	return &committer{
		cl: client(tb, addr, kgo.ConsumerGroup("dispatch"), kgo.ConsumeTopics("relay.events"), kgo.DisableAutoCommit(),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond)),
		last: make(map[int32]kadm.Offset),
	}
}

// metadataOf returns 3 KB of metadata that differ for each offset.
func metadataOf(partition int32, offset int64) string {
	return strings.Repeat(fmt.Sprintf("%d:%d ", partition, offset), 1000)[:3<<10]
}

func (c *committer) run(ctx context.Context) {
	withMetadata := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics[0].Partitions {
			p := &req.Topics[0].Partitions[i]
			m := metadataOf(p.Partition, p.Offset)
			p.Metadata = &m
		}
		return nil
	})
	for ctx.Err() == nil {
		offsets := map[int32]kgo.EpochOffset{}
		for _, r := range c.cl.PollFetches(ctx).Records() {
			offsets[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		}
		if len(offsets) == 0 {
			continue
		}
		c.cl.CommitOffsetsSync(withMetadata, map[string]map[int32]kgo.EpochOffset{"relay.events": offsets},
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
				if err != nil {
					return
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				for _, p := range resp.Topics[0].Partitions {
					if p.ErrorCode == 0 {
						c.last[p.Partition] = kadm.Offset{Partition: p.Partition, At: offsets[p.Partition].Offset}
						c.commits.Add(1)
					}
				}
			})
	}
}

func (c *committer) check(t *testing.T, cl *kgo.Client) {
	t.Helper()
	offsets := must.Get(kadm.NewClient(cl).FetchOffsets(t.Context(), "dispatch"))(t)
	for p, want := range c.last {
		got, _ := offsets.Lookup("relay.events", p)
		if got.At < want.At {
			t.Errorf("partition %d: %d is committed, after %d was acknowledged", p, got.At, want.At)
		}
		if got.Metadata != metadataOf(p, got.At) {
			t.Errorf("partition %d: the metadata is not that of offset %d", p, got.At)
		}
	}
}
