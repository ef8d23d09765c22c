package read_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/storetest"
)

// BenchmarkListBesideHits lists events right after one was accepted: alone, while 10,000 hits of findings are stored,
// and alone again, because the first and the last differ too. Run it with -benchtime 25x: after a hundred lists the
// budget of flushes that readers may request (ten a second) is what a list waits for.
func BenchmarkListBesideHits(b *testing.B) {
	x := newBench(b)
	w, _ := x.Writer(write.WriterConfig{})
	r := x.Reader(w)
	measure := func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			x.ProduceEvents(x.Event(1))
			began := time.Now()
			if _, err := r.Events(b.Context(), event.Query{Account: storetest.Account, Limit: 50}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
		b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1e3, "p95-ms")
	}
	b.Run("before", measure)
	b.Run("beside", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for sent := 0; ctx.Err() == nil && sent < 10_000; sent += 200 {
				var hits []*finding.Hit
				for i := range 200 {
					hits = append(hits, x.Hit(i%50))
				}
				x.ProduceHits(hits...)
				_ = wait.For(ctx, 20*time.Millisecond)
			}
		})
		defer wg.Wait()
		defer cancel()
		measure(b)
	})
	b.Run("after", measure)
}
