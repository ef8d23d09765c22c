package fence

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/test/is"
)

// fakeWriter owns one partition of each topic of the store. It stores nothing until a flush is requested.
type fakeWriter struct {
	asked   map[stream.Partition]int64
	changed chan struct{}
}

func (w *fakeWriter) RequestFlush(to map[stream.Partition]int64) {
	w.asked = to
	close(w.changed)
}

func (w *fakeWriter) Progress() store.Progress {
	p := store.Progress{Owned: map[stream.Partition]store.Position{}, Changed: w.changed}
	for _, topic := range store.Topics() {
		at := stream.Partition{Topic: topic}
		p.Owned[at] = store.Position{Offset: w.asked[at]}
	}
	return p
}

// Each fence waits for the topics of the table, and for no others.
func TestFenceWaitsForItsTopicsOnly(t *testing.T) {
	events := []stream.Fence{stream.FenceEvents}
	for _, c := range []struct {
		fences []stream.Fence
		wait   func(*Fence, context.Context) (time.Time, error)
	}{
		{events, (*Fence).WaitAll},
		{events, func(f *Fence, ctx context.Context) (time.Time, error) { return f.WaitPartition(ctx, 0) }},
		{[]stream.Fence{stream.FenceAudit}, (*Fence).WaitAudit},
		{[]stream.Fence{stream.FenceFindings}, (*Fence).WaitFindings},
		{[]stream.Fence{stream.FenceEvents, stream.FenceFindings}, (*Fence).WaitUsage},
	} {
		w := &fakeWriter{changed: make(chan struct{})}
		f := New(nil, w, nil, time.Minute)
		f.ends = newCoalescer(func(context.Context) (map[stream.Partition]int64, error) {
			ends := map[stream.Partition]int64{}
			for _, topic := range store.Topics() {
				ends[stream.Partition{Topic: topic}] = 7
			}
			return ends, nil
		})
		if behind, err := c.wait(f, t.Context()); err != nil || !behind.IsZero() {
			t.Fatalf("fences %s: %v, %v", c.fences, behind, err)
		}
		var waited, want []string
		for p := range maps.Keys(w.asked) {
			waited = append(waited, p.Topic)
		}
		for _, topic := range stream.Topics() {
			if slices.Contains(c.fences, topic.Fence) {
				want = append(want, topic.Name)
			}
		}
		slices.Sort(waited)
		slices.Sort(want)
		is.List(t, waited, want, "fences %s wait for", c.fences)
	}
}

// Unstored says that another node's writer has some of the partitions.
func (w *fakeWriter) Unstored(map[stream.Partition]int64) (*store.Unstored, bool) { return nil, false }
