package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// BenchmarkProduce measures acknowledged records of 1 KB on the topic events with four partitions. Each goroutine waits
// for its acknowledgement before it sends the next record. All share one client without linger.
func BenchmarkProduce(b *testing.B) {
	for _, fsync := range []bool{true, false} {
		for _, producers := range []int{1, 32, 128} {
			b.Run(fmt.Sprintf("fsync=%t/producers=%d", fsync, producers), func(b *testing.B) {
				cfg := testConfig(b)
				cfg.Fsync = fsync
				s := serve(b, cfg)
				createTopics(b, s.Addr(), 4, nil, "relay.events")
				cl := client(b, s.Addr(), kgo.ProducerLinger(0))
				benchProduce(b, cl, producers)
			})
		}
	}
}

func benchProduce(b *testing.B, cl *kgo.Client, producers int) {
	value := make([]byte, 1024)
	rand.Read(value)
	var mu sync.Mutex
	var all []time.Duration
	work := make(chan int, producers)
	var wg sync.WaitGroup
	before := kit.CPUTime(b)
	for range producers {
		wg.Go(func() {
			var took []time.Duration
			for i := range work {
				at := time.Now()
				r := &kgo.Record{Topic: "relay.events", Partition: int32(i % 4), Value: value}
				if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
					b.Error(err)
				}
				took = append(took, time.Since(at))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	n := 0
	for b.Loop() {
		work <- n
		n++
	}
	close(work)
	wg.Wait()
	slices.Sort(all)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(kit.CPUTime(b)-before)/float64(n)/1e3, "cpu-µs/record")
	b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
}

// BenchmarkProduceAndConsume measures records of 1 KB from a producer to a consumer in the same process, through the
// network and through in-memory pipes.
func BenchmarkProduceAndConsume(b *testing.B) {
	for _, way := range []string{"tcp", "inside"} {
		b.Run(way, func(b *testing.B) {
			cfg := testConfig(b)
			cfg.Fsync = false
			s := serve(b, cfg)
			createTopics(b, s.Addr(), 4, nil, "relay.events")
			var dial []kgo.Opt
			if way == "inside" {
				dial = append(dial, kgo.Dialer(s.DialContext))
			}
			cl := client(b, s.Addr(), append(dial, kgo.ProducerLinger(0))...)
			reader := client(b, s.Addr(), append(dial, kgo.ConsumeTopics("relay.events"))...)
			ctx, stop := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil {
					reader.PollFetches(ctx)
				}
			})
			benchProduce(b, cl, 32)
			stop()
			wg.Wait()
		})
	}
}

// BenchmarkAckLatency measures the time to the acknowledgement for one producer that sends 500 records a second.
func BenchmarkAckLatency(b *testing.B) {
	for _, fsync := range []bool{true, false} {
		b.Run(fmt.Sprintf("fsync=%t", fsync), func(b *testing.B) {
			cfg := testConfig(b)
			cfg.Fsync = fsync
			s := serve(b, cfg)
			createTopics(b, s.Addr(), 4, nil, "relay.events")
			cl := client(b, s.Addr(), kgo.ProducerLinger(0))
			value := make([]byte, 1024)
			var all []time.Duration
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			n := 0
			for b.Loop() {
				<-tick.C
				at := time.Now()
				r := &kgo.Record{Topic: "relay.events", Partition: int32(n % 4), Value: value}
				must.Do(b, cl.ProduceSync(context.Background(), r).FirstErr())
				all = append(all, time.Since(at))
				n++
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
		})
	}
}
