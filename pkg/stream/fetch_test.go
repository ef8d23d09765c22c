package stream

import (
	"context"
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
