package read

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
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
	for _, c := range []struct {
		fence stream.Fence
		wait  func(*fence, context.Context) (time.Time, error)
	}{
		{stream.FenceEvents, (*fence).waitAll},
		{stream.FenceEvents, func(f *fence, ctx context.Context) (time.Time, error) { return f.waitPartition(ctx, 0) }},
		{stream.FenceAudit, (*fence).waitAudit},
	} {
		w := &fakeWriter{changed: make(chan struct{})}
		f := newFence(nil, w, time.Minute)
		f.ends = newCoalescer(func(context.Context) (map[stream.Partition]int64, error) {
			ends := map[stream.Partition]int64{}
			for _, topic := range store.Topics() {
				ends[stream.Partition{Topic: topic}] = 7
			}
			return ends, nil
		})
		if behind, err := c.wait(f, t.Context()); err != nil || !behind.IsZero() {
			t.Fatalf("fence %s: %v, %v", c.fence, behind, err)
		}
		var waited, want []string
		for p := range maps.Keys(w.asked) {
			waited = append(waited, p.Topic)
		}
		for _, topic := range stream.Topics() {
			if topic.Fence == c.fence {
				want = append(want, topic.Name)
			}
		}
		slices.Sort(waited)
		slices.Sort(want)
		if !slices.Equal(waited, want) {
			t.Errorf("fence %s waits for %v, want %v", c.fence, waited, want)
		}
	}
}
