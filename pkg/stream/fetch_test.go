package stream

import (
	"context"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// However many records other topics have, one poll returns at most MaxBytes of them, plus one record of each partition:
// an event waits for no more than that.
func TestFetchIsBounded(t *testing.T) { onEachLog(t, 4, testFetchIsBounded) }

func testFetchIsBounded(t *testing.T, c Config, p *Producer) {
	const size, many, limit = 1000, 400, 64 << 10
	for i := range many { // in batches of their own: the broker hands over whole batches
		must.Do(t, p.ProduceInOwnBatch(t.Context(), Tiers()[i%3].Topic, int32(i%4), &Record{Value: make([]byte, size)}))
	}
	g := must.Get(NewGroup(c, GroupConfig{
		Name: "g", Topics: []string{Events, Tiers()[0].Topic, Tiers()[1].Topic, Tiers()[2].Topic}, MaxBytes: limit}))(t)
	t.Cleanup(g.Close)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for got := 0; got < many; {
		bytes := 0
		if err := g.Poll(ctx, func(_ Partition, records []*Record) {
			got += len(records)
			bytes += len(records) * size
		}); err != nil {
			t.Fatalf("%v, after %d records", err, got)
		}
		if bytes > limit {
			t.Fatalf("one poll returned %d bytes", bytes)
		}
	}
}

// While one partition always has more than a fetch returns, a record of another partition is read within the next
// fetches, even if it is larger than MaxPartitionBytes.
func TestFetchIsFair(t *testing.T) {
	t.Parallel()
	const limit = fairLimit
	for name, c := range map[string]struct {
		cfg  GroupConfig
		size int // of the record of the quiet partition, in bytes
	}{
		"small beside a full fetch":     {GroupConfig{MaxBytes: limit}, 100},
		"large beside small partitions": {GroupConfig{MaxPartitionBytes: limit}, 3 * limit},
		"large beside a full fetch":     {GroupConfig{MaxBytes: limit, MaxPartitionBytes: limit}, 3 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			onEachLog(t, 4, func(t *testing.T, conf Config, producer *Producer) {
				testFetchIsFair(t, conf, producer, c.cfg, c.size)
			})
		})
	}
}

const fairLimit = 64 << 10

func testFetchIsFair(t *testing.T, conf Config, producer *Producer, cfg GroupConfig, size int) {
	const many = 200
	produce := func(topic string, index int32, size int) {
		t.Helper()
		must.Do(t, producer.ProduceInOwnBatch(t.Context(), topic, index, &Record{Value: make([]byte, size)}))
	}
	for range many {
		produce(Commands, 0, fairLimit/2)
	}
	cfg.Name, cfg.Topics = "g", []string{Commands, Events, Outcomes, Receipts, Tiers()[0].Topic}
	g := must.Get(NewGroup(conf, cfg))(t)
	t.Cleanup(g.Close)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	busy := 0
	poll := func() (quiet bool) {
		t.Helper()
		must.Do(t, g.Poll(ctx, func(p Partition, records []*Record) {
			if quiet = quiet || p.Topic == Outcomes; p.Topic == Commands {
				busy += len(records)
			}
		}))
		return quiet
	}
	for index := range int32(4) {
		for range 5 {
			poll()
		}
		produce(Outcomes, index, size)
		before := busy
		for !poll() {
		}
		// One fetch may be in flight, and one may be sent before the order follows from its answer.
		if n := busy - before; n > 8 {
			t.Errorf("the record of partition %d came after %d records of the busy one", index, n)
		}
	}
	if busy == many {
		t.Error("the busy partition had no more")
	}
}
