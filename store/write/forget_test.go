package write_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/store/read/findings"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// The last hits include those that were acknowledged before the call. A deleted finding has none, and a later hit is
// its first again.
func TestForgottenFindingsAreDeleted(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	table := write.NewFindingTable(r, findings.Reader{Cluster: r.Cluster}.CaughtUp)
	old, young := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond), time.Now().UTC().Truncate(time.Millisecond)
	at := func(at time.Time) func(*finding.Hit) { return func(h *finding.Hit) { h.At = at } }
	b.ProduceHits(b.Hit(1, at(old)), b.Hit(2, at(young)), b.Hit(2, at(old)))
	ids := []string{storetest.FindingID(1), storetest.FindingID(2), storetest.FindingID(3)}
	want := func(what string, times ...time.Time) {
		t.Helper()
		last, err := table.LastHits(t.Context(), storetest.Account, ids)
		if err != nil || len(last) != len(times) {
			t.Fatalf("%s: %v, %v", what, last, err)
		}
		for i, at := range times {
			if !last[ids[i]].Equal(at) {
				t.Errorf("%s: finding %d was hit at %v, want %v", what, i+1, last[ids[i]], at)
			}
		}
	}
	want("at first", old, young)
	must.Do(t, table.DeleteFindings(t.Context(), storetest.Account, ids[1:]))
	want("after the deletion", old)
	b.ProduceHits(b.Hit(2, at(old)))
	want("hit again", old, old)
	if last, err := table.LastHits(t.Context(), "acc_other", ids); err != nil || len(last) != 0 {
		t.Errorf("another account: %v, %v", last, err)
	}
	if _, err := write.NewFindingTable(r, func(context.Context) error { return errBehind }).
		LastHits(t.Context(), storetest.Account, ids); !errors.Is(err, errBehind) {
		t.Errorf("a store that is behind: %v", err)
	}
}

var errBehind = errors.New("the store is behind")
