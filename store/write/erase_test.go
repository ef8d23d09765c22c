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
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
)

// erasures is the list of what was erased.
type erasures struct {
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

// untilFinished runs an eraser until nothing is left to do.
func (e *erasures) untilFinished(t *testing.T, r *read.Reader) {
	t.Helper()
	x := write.NewEraser(write.EraserConfig{Every: 20 * time.Millisecond, Settle: time.Millisecond}, write.EraserDeps{
		ChoreDeps: write.ChoreDeps{Log: slog.New(slog.DiscardHandler), Store: r, IsOwner: func() bool {
			return true
		}, Metrics: prometheus.NewRegistry()},
		Erasures: e, Now: time.Now,
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for ctx.Err() == nil {
		if _, left := e.Unfinished(); len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, left := e.Unfinished(); len(left) > 0 {
		t.Errorf("%d erasures are not finished", len(left))
	}
	cancel()
	running.Wait()
}

const planted = "PLANTED-PAYLOAD"

// secretive makes an event and an outcome that hold the planted text wherever a payload may be.
func (b *bench) secretive() (*event.Event, *event.Outcome) {
	e := b.Event(1, func(e *event.Event) {
		e.Body, e.Query = []byte(`{"p":"`+planted+`"}`), "q="+planted
		e.Header = []event.Field{{Name: "X-Planted", Value: planted}}
	})
	o := b.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) {
		o.Attempt.RequestHeader = event.LinesOf(e.Header)
		o.Attempt.ResponseHeader, o.Attempt.ResponseBody = event.LinesOf(e.Header), []byte(planted)
	})
	return e, o
}

// rowsWithPlanted counts the rows of ClickHouse that hold the planted text.
func (b *bench) rowsWithPlanted() (n uint64) {
	for table, columns := range map[string]string{
		"events": "body, headers, query", "attempts": "req_headers, resp_headers, resp_body"} {
		n += b.QuerySum("SELECT count() FROM " + table + " WHERE position(concat(" + columns + "), '" + planted + "') > 0")
	}
	return n
}

// An erased payload is shown by no read from the moment it is erased, leaves the rows, and does not come back when a
// writer that crashed writes all of them again from the log.
func TestErasedPayload(t *testing.T) { erasedPayload(t, newBench(t)) }

// The text index is built anew with the rows, and finds what is left.
func TestErasedPayloadOfTheTextIndex(t *testing.T) { erasedPayload(t, newIndexed(t)) }

func erasedPayload(t *testing.T, b *bench) {
	gone := newErasures()
	b.Erased = gone.erased
	w, stop := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	e, o := b.secretive()
	kept, _ := b.secretive()
	var err error
	if kept.ID, err = b.IDs.New(2); err != nil { // on the other shard, where there are two
		t.Fatal(err)
	}
	b.ProduceEvents(e, kept)
	b.BuildIndexes(r)
	b.ProduceOutcomes(o)
	search := func(text string) (ids []id.ID) {
		t.Helper()
		page, err := r.Events(t.Context(),
			event.Query{Account: storetest.Account, Limit: 10, Search: &event.Search{Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	if got := search(planted); len(got) != 2 {
		t.Fatalf("before: found %v", got)
	}
	if n := b.rowsWithPlanted(); n != 3 {
		t.Fatalf("before: in %d rows", n)
	}

	gone.erase(e.ID)
	noReadShows := func(r *read.Reader) {
		t.Helper()
		d, err := r.Event(t.Context(), storetest.Account, e.ID)
		if err != nil {
			t.Fatal(err)
		}
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
		if got := search(planted); !slices.Equal(got, []id.ID{kept.ID}) {
			t.Errorf("a search finds %v", got)
		}
		if got := search(strings.ToUpper(e.ID.Text(id.Event))); !slices.Equal(got, []id.ID{e.ID}) {
			t.Errorf("a search for the id finds %v", got)
		}
		again, err := r.Stored(t.Context(), storetest.Account, []id.ID{e.ID, kept.ID})
		if err != nil || len(again) != 1 || again[0].ID != kept.ID {
			t.Errorf("to be sent again: %v, %v", again, err)
		}
		if got := storetest.SelectEvents(t, r, event.Query{Account: storetest.Account}); len(got) != 1 {
			t.Errorf("a replay selects %v", got)
		}
	}
	noReadShows(r)

	gone.untilFinished(t, r)
	if n := b.rowsWithPlanted(); n != 1 { // that of the other event
		t.Errorf("in %d rows after the erasure", n)
	}
	noReadShows(r)

	stop()
	b.RewindOffsets(func(stream.Partition, int64) int64 { return 0 })
	w, _ = b.Writer(write.WriterConfig{})
	r = b.Reader(w)
	noReadShows(r) // behind the fence: all is written again
	if n := b.QuerySum("SELECT count() FROM events WHERE id = unhex('" + fmt.Sprintf("%x", e.ID[:]) + "')"); n < 2 {
		t.Fatalf("the event has %d rows: nothing was written again", n)
	}
	if n := b.QuerySum("SELECT count() FROM events WHERE id = unhex('" + fmt.Sprintf("%x", e.ID[:]) + "') AND size != " +
		strconv.Itoa(len(e.Body))); n != 0 {
		t.Error("the size was not kept")
	}
	if n := b.QuerySum("SELECT count() FROM events WHERE (body != '' OR headers != '' OR query != '') AND id = unhex('" +
		fmt.Sprintf("%x", e.ID[:]) + "')"); n != 0 {
		t.Errorf("%d rows have the payload again", n)
	}
}

// While ClickHouse is away the log answers, without what was erased.
func TestErasedPayloadInTheLog(t *testing.T) {
	b := newBench(t)
	gone := newErasures()
	b.Erased = gone.erased
	r := b.ReaderWith(read.ReaderConfig{URL: "http://127.0.0.1:1/away", RetentionDays: 30, FenceWait: time.Millisecond},
		nil)
	e, _ := b.secretive()
	b.ProduceEvents(e)
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || len(d.Event.Body) == 0 {
		t.Fatalf("before: %+v, %v", d, err)
	}
	gone.erase(e.ID)
	d, err := r.Event(t.Context(), storetest.Account, e.ID)
	if err != nil || len(d.Event.Body)+len(d.Event.Header)+len(d.Event.Query) > 0 || d.Size != len(e.Body) {
		t.Errorf("read from the log: %+v, %v", d, err)
	}
}

// Rows that somebody had in hand when the payload was erased are found by the next look, and an erasure is not
// finished before the store has what the log has.
func TestEraserLooksAgain(t *testing.T) {
	b := newBench(t)
	gone := newErasures()
	ignorant, stop := b.Writer(write.WriterConfig{}) // it does not know what was erased
	b.Erased = gone.erased
	r := b.Reader(ignorant)
	e, o := b.secretive()
	b.ProduceEvents(e)
	gone.erase(e.ID)
	b.ProduceOutcomes(o)
	gone.untilFinished(t, r)
	if n := b.rowsWithPlanted(); n != 0 {
		t.Errorf("in %d rows", n)
	}
	stop()
	behind := b.ReaderWith(read.ReaderConfig{URL: b.URL, RetentionDays: 30, FenceWait: 50 * time.Millisecond}, nil)
	b.ProduceEvents(e) // nobody stores it
	if err := behind.CaughtUp(t.Context()); !errors.Is(err, event.ErrUnavailable) {
		t.Fatalf("a store that is behind: %v", err)
	}
}

// A recovery job does not select what was erased, however much of it there is.
func TestErasedIsNotRecovered(t *testing.T) {
	b := newBench(t)
	gone := newErasures()
	b.Erased = gone.erased
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWithSmallPages(w)
	var want []id.ID
	for i := range 20 {
		e := b.Event(1)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
		if i < 4 || i%2 == 0 {
			gone.erase(e.ID)
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
		t.Errorf("selected %d of %v, want %v", sel.Sendable, got, want)
	}
}
