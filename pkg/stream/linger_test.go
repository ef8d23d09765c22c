package stream

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Outcomes and retries linger, and so do unordered records while they arrive fast. All other records are sent at once.
func TestRecordsThatLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
		defer cluster.Close()
		c := Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext}
		must.Get(Migrate(t.Context(), c, 1, 1))(t)
		p := must.Get(NewProducer(c, "test"))(t)
		defer p.Close()
		took := func(topic string) time.Duration {
			began := time.Now()
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte("x")}))
			return time.Since(began)
		}
		for topic, want := range map[string]time.Duration{
			Events: 0, Commands: 0, Control: 0, Tiers()[0].Topic: outcomeLinger, Outcomes: outcomeLinger} {
			took(topic) // its client connects
			is.Equal(t, took(topic), want, "a record of %s took", topic)
		}
		// lateOf returns how many of 200 records at 10,000 a second lingered.
		lateOf := func(produce func(string, int32, *Record, func(*Record, error))) int64 {
			var all sync.WaitGroup
			var late atomic.Int64
			for range 200 {
				all.Add(1)
				began := time.Now()
				produce(Events, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) {
					is.OK(t, err)
					if time.Since(began) >= unorderedLinger {
						late.Add(1)
					}
					all.Done()
				})
				time.Sleep(100 * time.Microsecond)
			}
			all.Wait()
			return late.Load()
		}
		if n := lateOf(p.ProduceUnordered); n < 10 || n > 100 { // the first of each batch waits for the whole linger
			t.Errorf("%d of 200 unordered records lingered", n)
		}
		is.Equal(t, lateOf(p.Produce), 0, "of 200 ordered records lingered")
		time.Sleep(time.Second)
		lone := func() time.Duration {
			began, done := time.Now(), make(chan error, 1)
			p.ProduceUnordered(Events, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) { done <- err })
			must.Do(t, <-done)
			return time.Since(began)
		}
		if lone(); lone() != 0 {
			t.Error("a single record lingers after a fast period")
		}
	})
}
