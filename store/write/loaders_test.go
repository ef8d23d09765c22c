package write_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// loadersBench is a writer and a reader with faults between the writer and ClickHouse.
type loadersBench struct {
	*bench
	proxy  *storetest.FaultProxy
	reader *read.Reader
	events int // that were produced
	hits   int
}

func newLoadersBench(t *testing.T) *loadersBench {
	b := newBench(t)
	g := storetest.NewFaultProxy(b.Bench)
	w, _ := b.Writer(g.WriterConfig(write.WriterConfig{}))
	return &loadersBench{bench: b, proxy: g, reader: b.Reader(w)}
}

// produce produces an event, or a hit of the finding whose number is that of the hits so far. All are in partition 0.
func (b *loadersBench) produce(hit bool) {
	if !hit {
		b.events++
		b.ProduceEvents(b.Event(0))
		return
	}
	h := b.Hit(b.hits)
	b.hits++
	b.Produce(stream.Findings, 0, &stream.Record{Key: []byte(h.Finding), Value: h.Encode()})
}

// list lists events or findings. It returns how many there are and whether the list is complete.
func (b *loadersBench) list(hits bool) (n int, complete bool) {
	b.Helper()
	if hits {
		q := finding.Query{Account: storetest.Account, Limit: 100, Keep: func(string) bool { return true }}
		page := must.Get(findings.Reader{Cluster: b.reader.Cluster}.Findings(b.Context(), q))(b)
		return len(page.Rows), page.AsOf.IsZero()
	}
	page := must.Get(b.reader.Events(b.Context(), event.Query{Account: storetest.Account, Limit: 100}))(b)
	return len(page.Rows), page.AsOf.IsZero()
}

// TestEventsAndHitsWaitForNothingOfEachOther: while ClickHouse does not answer the inserts of hits, or refuses them,
// events are stored, listed completely and committed, no offset of a hit is, and the other way round. Afterwards all
// are stored once.
func TestEventsAndHitsWaitForNothingOfEachOther(t *testing.T) {
	for _, c := range []struct {
		name         string
		hitsAreStuck bool
		fault        storetest.Fault
	}{
		{"inserts of hits hang", true, storetest.Stuck},
		{"inserts of hits are refused", true, storetest.Refused},
		{"inserts of events hang", false, storetest.Stuck},
		{"inserts of events are refused", false, storetest.Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newLoadersBench(t)
			insert, stuckTopic, topic := "INSERT INTO events ", stream.Events, stream.Findings
			if c.hitsAreStuck {
				insert, stuckTopic, topic = "INSERT INTO findings_hits ", stream.Findings, stream.Events
			}
			failed := make(chan struct{}, 1)
			b.proxy.SetRule(func(_ int, statement string) storetest.Fault {
				if !strings.HasPrefix(statement, insert) {
					return storetest.NoFault
				}
				select {
				case failed <- struct{}{}:
				default:
				}
				return c.fault
			})
			b.produce(c.hitsAreStuck)
			<-failed
			for i := range 3 {
				b.produce(!c.hitsAreStuck)
				if n, complete := b.list(!c.hitsAreStuck); n != i+1 || !complete {
					t.Fatalf("%d are listed, complete: %v; want %d", n, complete, i+1)
				}
			}
			storetest.Eventually(t, func() bool { return b.committedOffset(topic, 0) == 3 })
			is.Equal(t, b.committedOffset(stuckTopic, 0), 0, "offset: of %s is committed", stuckTopic)
			if c.fault == storetest.Refused {
				if _, complete := b.list(c.hitsAreStuck); complete {
					t.Error("the list of what ClickHouse refuses claims to be complete")
				}
			}
			b.proxy.SetRule(nil)
			b.proxy.ReleaseStuck()
			storetest.Eventually(t, func() bool {
				n, complete := b.list(c.hitsAreStuck)
				return n == 1 && complete && b.committedOffset(stuckTopic, 0) == 1
			})
			for _, findings := range []bool{false, true} {
				want := b.events
				if findings {
					want = b.hits
				}
				if n, _ := b.list(findings); n != want {
					t.Errorf("findings %v: %d are listed, want %d", findings, n, want)
				}
			}
		})
	}
}

// TestPartsOfHitsThrottleHitsOnly: too many parts of the tables of findings delay no flush of events.
func TestPartsOfHitsThrottleHitsOnly(t *testing.T) {
	b := newBench(t)
	var logged kit.Buffer
	b.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	reg := prometheus.NewRegistry()
	b.Exec("SYSTEM STOP MERGES findings_hits")
	b.Exec("SYSTEM STOP MERGES findings")
	w, _ := b.WriterWithMetrics(write.WriterConfig{FlushEvery: time.Millisecond, ThrottleParts: 8,
		PartsInterval: 20 * time.Millisecond}, reg)
	r := b.Reader(w)
	for n := 0; storetest.Metric(t, reg, "relay_store_throttled") == 0; n++ {
		b.ProduceHits(b.Hit(n))
		b.WaitCaughtUp(r)
	}
	if strings.Count(logged.String(), "group=store.findings") != 1 || strings.Count(logged.String(), "group=store ") != 0 {
		t.Error("want one warning, of the group of findings")
	}
	b.Exec("SYSTEM START MERGES findings_hits")
	b.Exec("SYSTEM START MERGES findings")
}
