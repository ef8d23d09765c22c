package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Outcomes wait for more of their kind; whatever somebody waits for is sent at once.
func TestOnlyOutcomesGather(t *testing.T) {
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
	})
}
