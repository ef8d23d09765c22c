package stream

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// However much waits in other topics, one poll hands over no more of it than MaxBytes, a record of each partition
// excepted: that is all an event ever waits for.
func TestFetchIsBounded(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	if _, err := Migrate(t.Context(), c, 4, 1); err != nil {
		t.Fatal(err)
	}
	p, err := NewProducer(c, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	const size, many, limit = 1000, 400, 64 << 10
	for i := range many { // in batches of their own: the broker hands over whole batches
		err := p.ProduceAlone(t.Context(), Tiers()[i%3].Topic, int32(i%4), &Record{Value: make([]byte, size)})
		if err != nil {
			t.Fatal(err)
		}
	}
	g, err := NewGroup(c, GroupConfig{Name: "g", Topics: []string{Events, Tiers()[0].Topic, Tiers()[1].Topic, Tiers()[2].Topic}, MaxBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
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
			t.Fatalf("one poll brought %d bytes", bytes)
		}
	}
}

// Where one partition has more than a fetch takes, time after time, the record of another comes among the next of it and not
// after all of it, also when it is larger than what a fetch takes of a partition.
func TestFetchIsFair(t *testing.T) {
	t.Parallel()
	noise := rand.New(rand.NewPCG(1, 1))
	value := func(size int) []byte { // nothing that compression makes smaller
		v := make([]byte, size)
		for i := range v {
			v[i] = byte(noise.Uint32())
		}
		return v
	}
	const many, limit = 300, 64 << 10
	for name, c := range map[string]struct {
		cfg  GroupConfig
		size int // of the record of the quiet partition, in bytes
	}{
		"small beside a full fetch":     {GroupConfig{MaxBytes: limit}, 100},
		"large beside small partitions": {GroupConfig{MaxPartitionBytes: limit}, 3 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			_, conf, p := broker(t)
			for range many {
				if err := p.ProduceAlone(t.Context(), Commands, 0, &Record{Value: value(limit / 2)}); err != nil {
					t.Fatal(err)
				}
			}
			c.cfg.Name, c.cfg.Topics = "g", []string{Commands, Events}
			g, err := NewGroup(conf, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(g.Close)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			busy, came := 0, false
			for busy < many && !came {
				if busy > many/10 && c.size > 0 {
					if err := p.ProduceSync(ctx, Events, 0, &Record{Value: value(c.size)}); err != nil {
						t.Fatal(err)
					}
					c.size = 0
				}
				if err := g.Poll(ctx, func(p Partition, records []*Record) {
					if came = came || p.Topic == Events; p.Topic == Commands {
						busy += len(records)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			if busy > many/2 {
				t.Errorf("it came after %d of %d records of the busy partition", busy, many)
			}
		})
	}
}
