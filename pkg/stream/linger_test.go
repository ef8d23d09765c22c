package stream

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Outcomes wait for more of their kind, and so do events while they come fast; whatever else somebody waits for is
// sent at once.
func TestWhatGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		c := Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext}
		if _, err := Migrate(t.Context(), c, 1, 1); err != nil {
			t.Fatal(err)
		}
		p, err := NewProducer(c, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		took := func(topic string) time.Duration {
			began := time.Now()
			if err := p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for topic, want := range map[string]time.Duration{Events: 0, Commands: 0, Tiers()[0].Topic: 0, Outcomes: outcomeLinger} {
			took(topic) // its client connects
			if got := took(topic); got != want {
				t.Errorf("a record of %s took %v, want %v", topic, got, want)
			}
		}
		// Events that come fast gather too, and are as good as any.
		var all sync.WaitGroup
		var late atomic.Int64
		for range 200 {
			all.Add(1)
			began := time.Now()
			p.Produce(Events, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) {
				if err != nil {
					t.Error(err)
				}
				if time.Since(began) >= eventLinger {
					late.Add(1)
				}
				all.Done()
			})
			time.Sleep(100 * time.Microsecond)
		}
		all.Wait()
		if n := late.Load(); n < 10 || n > 100 { // the first of each batch waits for all of the moment
			t.Errorf("%d of 200 records waited for the others", n)
		}
		time.Sleep(time.Second)
		if took(Events); took(Events) != 0 {
			t.Error("a single event waits for others after a busy time")
		}
	})
}
