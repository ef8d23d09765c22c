package write

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Erased payloads are left out of the rows that are inserted, and stay in those of the batch, which a scan may be
// reading.
func TestStripErasedLeavesTheBatchAlone(t *testing.T) {
	const n = 4
	b := newBatch(newSinks())
	batchEvents, batchAttempts := sinkOf[*eventRow](b), sinkOf[*deliveryRow](b)
	for i := range byte(n) {
		e := &event.Event{ID: id.ID{15: i}, Query: "q", Mismatch: "m", Body: []byte("body"),
			Header: []event.Field{{Name: "A", Value: "b"}}}
		batchEvents.rows = append(batchEvents.rows, &eventRow{Event: e, size: 4})
		batchAttempts.rows = append(batchAttempts.rows, &deliveryRow{Outcome: &event.Outcome{Event: e.ID,
			Attempt: &event.Attempt{RequestHeader: "A: b\n", ResponseHeader: "C: d\n", ResponseBody: []byte("answer")}}})
	}
	// sizes are the bytes of payload in a row of an event and in one of an attempt.
	sizes := func(events []*eventRow, attempts []*deliveryRow, i int) (ofEvent, ofAttempt int) {
		a := attempts[i].Attempt
		return len(events[i].Body) + len(events[i].Query) + len(events[i].Mismatch) + len(events[i].Header),
			len(a.RequestHeader) + len(a.ResponseHeader) + len(a.ResponseBody)
	}
	erased := func(e id.ID) bool { return e[15] == 1 || e[15] == 2 }
	events, attempts := b.stripErased(erased)
	for i := range n {
		wantEvent, wantAttempt := sizes(batchEvents.rows, batchAttempts.rows, i)
		if wantEvent != 7 || wantAttempt != 16 {
			t.Errorf("row %d of the batch has %d and %d bytes of payload left", i, wantEvent, wantAttempt)
		}
		if erased(batchEvents.rows[i].ID) {
			wantEvent, wantAttempt = 0, 0
		}
		if e, a := sizes(events, attempts, i); e != wantEvent || a != wantAttempt || events[i].size != 4 {
			t.Errorf("row %d is inserted with %d and %d bytes of payload, want %d and %d", i, e, a, wantEvent, wantAttempt)
		}
	}
}

// finishedErasures are the events whose erasure was finished.
type finishedErasures map[id.ID]bool

func (finishedErasures) Unfinished() (string, map[id.ID]time.Time) { return "", nil }

func (f finishedErasures) Finish(_ context.Context, e id.ID) error {
	if e == (id.ID{}) {
		return errors.New("away")
	}
	f[e] = true
	return nil
}

// An erasure is finished once it is settled and a run has found no payload.
func TestErasuresAreFinishedOnceSettled(t *testing.T) {
	now := time.Now()
	finished := finishedErasures{}
	e := &Eraser{cfg: EraserConfig{Settle: time.Minute},
		deps: EraserDeps{Erasures: finished, Now: func() time.Time { return now }}}
	young, settled, stored := id.ID{1}, id.ID{2}, id.ID{3}
	erased := map[id.ID]time.Time{young: now.Add(time.Millisecond - time.Minute), settled: now.Add(-time.Minute),
		stored: now.Add(-time.Hour)}
	err := e.finishErased(t.Context(), []id.ID{young, settled, stored}, map[id.ID]bool{stored: true}, erased)
	if want := (finishedErasures{settled: true}); err != nil || !maps.Equal(finished, want) {
		t.Errorf("finished %v, %v, want %v", finished, err, want)
	}
	if err := e.finishErased(t.Context(), []id.ID{{}}, nil, nil); err == nil {
		t.Error("an error of Finish is ignored")
	}
}
