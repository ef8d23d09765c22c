package write_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// erasures is a list of erased payloads in memory.
type erasures struct {
	runs atomic.Int32 // calls of Unfinished: each run of an eraser begins with one

	mu       sync.Mutex
	at       map[id.ID]time.Time
	finished map[id.ID]bool
}

func newErasures() *erasures {
	return &erasures{at: map[id.ID]time.Time{}, finished: map[id.ID]bool{}}
}

func (e *erasures) erase(d id.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at[d] = time.Now()
}

func (e *erasures) erased(d id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.at[d].IsZero()
}

func (e *erasures) Unfinished() (string, map[id.ID]time.Time) {
	e.runs.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[id.ID]time.Time{}
	for d, at := range e.at {
		if !e.finished[d] {
			all[d] = at
		}
	}
	return storetest.Account, all
}

func (e *erasures) Finish(_ context.Context, d id.ID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished[d] = true
	return nil
}

// runEraser runs an eraser until done returns true. failures is the number of its failed runs so far.
func (e *erasures) runEraser(t *testing.T, r *read.Reader, done func(failures float64) bool) {
	t.Helper()
	reg := prometheus.NewRegistry()
	x := write.NewEraser(write.EraserConfig{Every: 20 * time.Millisecond, Settle: time.Millisecond}, write.EraserDeps{
		ChoreDeps: write.ChoreDeps{
			Log: slog.New(slog.DiscardHandler), Store: r, IsOwner: func() bool { return true }, Metrics: reg},
		Erasures: e, Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		is.OK(t, x.Run(ctx))
	})
	defer running.Wait()
	defer cancel()
	storetest.Eventually(t, func() bool {
		return done(storetest.Metric(t, reg, "relay_store_erase_failures_total"))
	})
}

// runEraserUntilFinished runs an eraser until every erasure is finished.
func (e *erasures) runEraserUntilFinished(t *testing.T, r *read.Reader) {
	t.Helper()
	e.runEraser(t, r, func(float64) bool {
		_, left := e.Unfinished()
		return len(left) == 0
	})
}

const plantedPayload = "PLANTED-PAYLOAD"

// newEventWithPayload returns an event and an outcome with the planted text in every place that may hold a payload.
func (b *bench) newEventWithPayload() (*event.Event, *event.Outcome) {
	e := b.Event(1, func(e *event.Event) {
		e.Body, e.Query = []byte(`{"p":"`+plantedPayload+`"}`), "q="+plantedPayload
		e.Header = []event.Field{{Name: "X-Planted", Value: plantedPayload}}
	})
	o := b.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) {
		o.Attempt.RequestHeader = event.LinesOf(e.Header)
		o.Attempt.ResponseHeader, o.Attempt.ResponseBody = event.LinesOf(e.Header), []byte(plantedPayload)
	})
	return e, o
}

// rowsWithPayload counts the rows of ClickHouse that hold the planted text.
func (b *bench) rowsWithPayload() (n uint64) {
	for table, columns := range map[string]string{
		"events": "body, headers, query", "attempts": "req_headers, resp_headers, resp_body"} {
		n += b.QuerySum("SELECT count() FROM " + table + " WHERE position(concat(" + columns + "), '" +
			plantedPayload + "') > 0")
	}
	return n
}

// TestErasedPayloadStaysErased: no read shows a payload from the moment it is erased, its rows are emptied, and it does
// not come back when a writer that crashed inserts all rows again from Kafka.
func TestErasedPayloadStaysErased(t *testing.T) { erasedPayload(t, newBench(t)) }

// TestErasedPayloadLeavesTheTextIndex: the text index is rebuilt with the rows and still finds the other payloads.
func TestErasedPayloadLeavesTheTextIndex(t *testing.T) { erasedPayload(t, newBenchWithSearchIndex(t)) }

func erasedPayload(t *testing.T, b *bench) {
	erasures := newErasures()
	b.Erased = erasures.erased
	w, stop := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	e, o := b.newEventWithPayload()
	kept, _ := b.newEventWithPayload()
	var err error
	if kept.ID, err = b.IDs.New(2); err != nil { // on the other shard, if there are two
		t.Fatal(err)
	}
	b.ProduceEvents(e, kept)
	b.BuildIndexes(r)
	b.ProduceOutcomes(o)
	search := func(text string) (ids []id.ID) {
		t.Helper()
		page := must.Get(r.Events(t.Context(),
			event.Query{Account: storetest.Account, Limit: 10, Search: &event.Search{Text: text}}))(t)
		for _, row := range page.Rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	if got := search(plantedPayload); len(got) != 2 {
		t.Fatalf("before the erasure a search finds %v, want both events", got)
	}
	must.Equal(t, b.rowsWithPayload(), 3, "before the erasure … rows have a payload")

	erasures.erase(e.ID)
	checkReads := func(r *read.Reader) {
		t.Helper()
		d := must.Get(r.Event(t.Context(), storetest.Account, e.ID))(t)
		if len(d.Event.Body)+len(d.Event.Header)+len(d.Event.Query) > 0 || d.Size != len(e.Body) || d.Type != e.Type {
			t.Errorf("the event is read as %+v, of %d bytes", d.Event, d.Size)
		}
		for _, a := range d.Attempts {
			if len(a.RequestHeader)+len(a.ResponseHeader)+len(a.ResponseBody) > 0 {
				t.Errorf("an attempt is read as %+v", a)
			}
		}
		page, err := r.Attempts(t.Context(), storetest.Account, e.ID, id.ID{}, 10)
		if err != nil || len(page.Rows) != 1 || len(page.Rows[0].ResponseBody)+len(page.Rows[0].RequestHeader) > 0 {
			t.Errorf("attempts: %+v, %v", page.Rows, err)
		}
		is.List(t, search(plantedPayload), []id.ID{kept.ID}, "a search finds")
		is.List(t, search(strings.ToUpper(e.ID.Text(id.Event))), []id.ID{e.ID}, "a search for the id finds")
		again, err := r.Stored(t.Context(), storetest.Account, []id.ID{e.ID, kept.ID})
		if err != nil || len(again) != 1 || again[0].ID != kept.ID {
			t.Errorf("to be sent again: %v, %v", again, err)
		}
		if got := storetest.SelectEvents(t, r, event.Query{Account: storetest.Account}); len(got) != 1 {
			t.Errorf("a replay selects %v", got)
		}
	}
	checkReads(r)

	erasures.runEraserUntilFinished(t, r)
	if n := b.rowsWithPayload(); n != 1 { // the row of the other event
		t.Errorf("%d rows have a payload after the erasure, want 1", n)
	}
	checkReads(r)

	stop()
	b.RewindOffsets(func(stream.Partition, int64) int64 { return 0 })
	w, _ = b.Writer(write.WriterConfig{})
	r = b.Reader(w)
	b.WaitCaughtUp(r) // all rows are inserted again
	checkReads(r)
	if n := b.QuerySum("SELECT count() FROM events WHERE id = unhex('" + fmt.Sprintf("%x", e.ID[:]) + "')"); n < 2 {
		t.Fatalf("the event has %d rows, want 2: its row was not inserted again", n)
	}
	if n := b.QuerySum("SELECT count() FROM events WHERE id = unhex('" + fmt.Sprintf("%x", e.ID[:]) + "') AND size != " +
		strconv.Itoa(len(e.Body))); n != 0 {
		t.Error("the size of the body was not kept")
	}
	if n := b.QuerySum("SELECT count() FROM events WHERE (body != '' OR headers != '' OR query != '') AND id = unhex('" +
		fmt.Sprintf("%x", e.ID[:]) + "')"); n != 0 {
		t.Errorf("%d rows have the payload again, want 0", n)
	}
	if n := b.QuerySum("SELECT count() FROM attempts " +
		"WHERE req_headers != '' OR resp_headers != '' OR resp_body != ''"); n != 0 {
		t.Errorf("%d attempts have the payload again, want 0", n)
	}
}

// TestErasedPayloadIsNotReadFromTheLog: while ClickHouse is unavailable reads answer from Kafka, without erased
// payloads.
func TestErasedPayloadIsNotReadFromTheLog(t *testing.T) {
	b := newBench(t)
	erasures := newErasures()
	b.Erased = erasures.erased
	r := b.ReaderWith(cluster.Config{
		URL: "http://127.0.0.1:1/unavailable", RetentionDays: 30, FenceWait: time.Millisecond},
		nil)
	e, _ := b.newEventWithPayload()
	b.ProduceEvents(e)
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || len(d.Event.Body) == 0 {
		t.Fatalf("before the erasure: %+v, %v", d, err)
	}
	erasures.erase(e.ID)
	d, err := r.Event(t.Context(), storetest.Account, e.ID)
	if err != nil || len(d.Event.Body)+len(d.Event.Header)+len(d.Event.Query) > 0 || d.Size != len(e.Body) {
		t.Errorf("read from the log: %+v, %v", d, err)
	}
}

// TestEraserFindsLateRows: the eraser finds rows that were in a writer's memory at the time of the erasure, and no
// erasure is finished while the store lags behind Kafka.
func TestEraserFindsLateRows(t *testing.T) {
	b := newBench(t)
	erasures := newErasures()
	w, stop := b.Writer(write.WriterConfig{}) // does not know of the erasure
	b.Erased = erasures.erased
	r := b.Reader(w)
	e, o := b.newEventWithPayload()
	b.ProduceEvents(e)
	erasures.erase(e.ID)
	b.ProduceOutcomes(o)
	erasures.runEraserUntilFinished(t, r)
	is.Equal(t, b.rowsWithPayload(), 0, "rows have a payload after the erasure")
	stop()
	lagging := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 50 * time.Millisecond}, nil)
	b.ProduceEvents(e) // no writer stores it
	if err := lagging.CaughtUp(t.Context()); !errors.Is(err, event.ErrUnavailable) {
		t.Fatalf("CaughtUp of a lagging store returns %v, want ErrUnavailable", err)
	}
	late := b.Event(1)
	erasures.erase(late.ID)
	erasures.runEraser(t, lagging, func(failures float64) bool {
		_, left := erasures.Unfinished()
		return failures >= 2 || len(left) == 0
	})
	if _, left := erasures.Unfinished(); left[late.ID].IsZero() {
		t.Error("an erasure is finished while the store lags behind Kafka")
	}
}

// TestErasedEventsAreNotRecovered: a recovery job does not select erased events, however many there are.
func TestErasedEventsAreNotRecovered(t *testing.T) {
	b := newBench(t)
	erasures := newErasures()
	b.Erased = erasures.erased
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWithSmallPages(w)
	var want []id.ID
	for i := range 20 {
		e := b.Event(1)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
		if i < 4 || i%2 == 0 {
			erasures.erase(e.ID)
		} else {
			want = append(want, e.ID)
		}
	}
	job, sel := b.SelectRecovery(r, b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	var got []id.ID
	for i, x := range slices.Backward(b.RecoveryItems(r, job, sel.Total, 4)) {
		if got = append(got, x.Event); x.Seq != sel.Total-1-i || x.State != event.Pending {
			t.Errorf("item %d is %+v", i, x)
		}
	}
	if !slices.Equal(got, want) || sel.Sendable != len(want) {
		t.Errorf("selected %d events, items %v, want %v", sel.Sendable, got, want)
	}
}
