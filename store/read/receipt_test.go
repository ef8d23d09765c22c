package read_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestReceiptResultFollowsLogOrder sends every sequence of three receipts, each to an event of its own, and reads the
// result of each receipt afterwards. It follows from the order of the log, however late it is read, also after rows
// were written again.
func TestReceiptResultFollowsLogOrder(t *testing.T) {
	b := newBench(t)
	states := []event.Processing{event.ProcessingRunning, event.ProcessingDone, event.ProcessingFailed}
	type sent struct {
		receipt *event.Receipt
		offset  int64
		want    event.ReceiptResult
	}
	var all []sent
	for n := range 27 {
		e := b.Event(n)
		b.ProduceEvents(e)
		var done *event.Receipt // the newest with the state processed
		var mine []sent
		first := time.UnixMilli(1_800_000_000_000).UTC()
		for i := range 3 {
			x, offset := b.ProduceReceipt(e, states[n%3], first.Add(time.Duration(i)*time.Second))
			n /= 3
			if x.State == event.ProcessingDone {
				done = x
			}
			s := sent{x, offset, event.ReceiptResult{Receipt: *x, Applied: done == nil || x == done}}
			s.want.FirstAt = first
			mine = append(mine, s)
		}
		for i := range mine {
			if s := &mine[i]; !s.want.Applied {
				s.want.Receipt = *done
				s.want.FirstAt = first
			}
		}
		all = append(all, mine...)
	}
	if storetest.TwoShards(t) { // both have some
		all = all[len(all)-24:]
	}
	ask := func(r *read.Reader, all []sent) {
		t.Helper()
		for _, s := range all {
			got, err := r.ReceiptResult(t.Context(), s.receipt, s.offset)
			if err != nil {
				t.Error(err)
				return
			}
			is.Equal(t, cmp.Diff(s.want, got), "", "receipt %s at offset %d (-want +got)", s.receipt.State, s.offset)
		}
	}
	check := func() {
		t.Helper()
		w, stop := b.Writer(write.WriterConfig{FlushRows: 20})
		defer stop()
		ask(b.Reader(w), all)
	}
	impatient := cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: time.Millisecond}
	behind := b.ReaderWith(impatient, nil)
	var wg sync.WaitGroup
	for range 4 { // concurrent callers share one load
		wg.Go(func() { ask(behind, all[:9]) })
	}
	wg.Wait()
	ask(behind, all[:20]) // the log has all, the store nothing
	w, stop := b.Writer(write.WriterConfig{FlushRows: 20})
	ask(b.Reader(w), all[:1])
	stop()
	b.RewindOffsets(func(_ stream.Partition, committed int64) int64 { return max(committed-5, 0) })
	ask(b.ReaderWith(impatient, nil), all[len(all)-20:]) // the store has all, but the fence does not know that
	away := impatient
	away.URL = "http://127.0.0.1:1/away"
	ask(b.ReaderWith(away, nil), all[len(all)-20:])
	// the read of the event agrees
	for _, r := range []*read.Reader{b.ReaderWith(impatient, nil), b.ReaderWith(away, nil)} {
		last := all[len(all)-1]
		d := must.Get(r.Event(t.Context(), storetest.Account, last.receipt.Event))(t)
		if diff := cmp.Diff(&last.want.Receipt, d.Receipt); diff != "" || d.Processing != last.want.State || d.AsOf.IsZero() {
			t.Errorf("as of %v the event is %s (-want +got):\n%s", d.AsOf, d.Processing, diff)
		}
	}
	check()
	random := kit.Rand(t)
	b.RewindOffsets(func(_ stream.Partition, committed int64) int64 { return random.Int64N(max(committed, 0) + 1) })
	b.Exec("OPTIMIZE TABLE receipts FINAL")
	b.Exec("OPTIMIZE TABLE receipt_firsts FINAL")
	check()
}

func TestEventEndpoint(t *testing.T) {
	b := newBench(t)
	stored, logged := b.Event(1), b.Event(2)
	b.ProduceEvents(stored)
	w, stop := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	f := func(account string, e *event.Event, want string, wantErr error) { // reads from r
		t.Helper()
		got, err := r.EventEndpoint(t.Context(), account, e.ID)
		if got != want || !errors.Is(err, wantErr) {
			t.Errorf("%q, %v; want %q, %v", got, err, want, wantErr)
		}
	}
	f(storetest.Account, stored, "ep_1", nil)
	f("acc_2", stored, "", event.ErrNotFound)
	f(storetest.Account, logged, "", event.ErrNotFound)
	old := b.Event(1)
	copy(old.ID[:6], make([]byte, 6))
	f(storetest.Account, old, "", event.ErrNotFound)
	stop()
	b.ProduceEvents(logged) // no writer runs: it is in the log only
	r = b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 100 * time.Millisecond}, w)
	f(storetest.Account, logged, "ep_2", nil)
	f(storetest.Account, b.Event(2), "", event.ErrNotFound)
	x, offset := b.ProduceReceipt(logged, event.ProcessingDone, time.Now())
	x.Event = b.Event(2).ID // neither has the log, and it may have been trimmed
	away := b.ReaderWith(cluster.Config{URL: "http://127.0.0.1:1/away", RetentionDays: 30, FenceWait: time.Millisecond},
		nil)
	if _, err := away.ReceiptResult(t.Context(), x, offset); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("receipt of an event that is nowhere to be found: %v", err)
	}
	r = away // the log knows the event, whether the store has it or not
	f(storetest.Account, stored, "ep_1", nil)
	f(storetest.Account, logged, "ep_2", nil)
	f("acc_2", stored, "", event.ErrUnavailable)
}
