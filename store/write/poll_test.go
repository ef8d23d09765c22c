package write_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestRecordsStayInKafkaUntilAReaderAsks has a writer that polls once an hour: records stay in Kafka until a reader
// waits for them. Then the writer reads as far as the reader needs, in as many polls as that takes.
func TestRecordsStayInKafkaUntilAReaderAsks(t *testing.T) {
	b := newBench(t)
	reg := prometheus.NewRegistry()
	w, _ := b.WriterWithMetrics(write.WriterConfig{PollEvery: time.Hour, FlushEvery: time.Hour}, reg)
	b.ProduceEvents(b.Event(1))
	for storetest.Metric(t, reg, "relay_store_buffered_rows") == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 5 {
		b.ProduceEvents(b.Event(1))
	}
	time.Sleep(50 * time.Millisecond)
	if got := storetest.Metric(t, reg, "relay_store_buffered_rows"); got != 1 {
		t.Errorf("%v rows were read, want only the first", got)
	}
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30}, w)
	for n := 6; n <= 7; n++ {
		page := must.Get(r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10}))(t)
		if len(page.Rows) != n || !page.AsOf.IsZero() {
			t.Fatalf("%d events as of %v, want %d", len(page.Rows), page.AsOf, n)
		}
		b.ProduceEvents(b.Event(1))
	}
}
