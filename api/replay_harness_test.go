package api_test

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// selector implements the part of the store that replays read.
type selector struct{ *fake }

// Select returns the events that match a selection.
func (f selector) Select(ctx context.Context, q event.Query, page func([]event.Match) error) error {
	f.mu.Lock()
	f.queries = append(f.queries, q)
	ids := slices.SortedFunc(maps.Keys(f.events), func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
	var found []event.Match
	for _, d := range ids {
		e, at := f.events[d], d.Time()
		if (len(q.Endpoints) == 0 || slices.Contains(q.Endpoints, e.Endpoint)) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) &&
			(len(q.Statuses) == 0 || slices.Contains(q.Statuses, f.detail(e).Status)) && !at.Before(q.Since) &&
			at.Before(q.Until) && e.Account == q.Account {
			found = append(found, event.Match{
				ID: d, Endpoint: e.Endpoint, Type: e.Type, Verdict: e.Verdict, Reason: e.Reason, Size: len(e.Body)})
		}
	}
	f.mu.Unlock()
	if f.SelectFunc != nil {
		return f.SelectFunc(ctx, q, page)
	}
	for chunk := range slices.Chunk(found, 3) {
		if err := page(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (f selector) Stored(ctx context.Context, account string, ids []id.ID) (stored []event.Stored, err error) {
	if f.StoredFunc != nil {
		return f.StoredFunc(ctx, account, ids)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ids {
		if e := f.events[d]; e != nil && e.Account == account {
			stored = append(stored, event.Stored{Event: e, Deliveries: f.detail(e).Deliveries})
		}
	}
	return stored, nil
}

func (f selector) RecoveryCounts(_ context.Context, _ string, runs ...string) (
	map[string]event.RecoveryCounts, time.Time, error) {
	if f.RunCountsFunc != nil {
		return f.RunCountsFunc(runs)
	}
	return nil, time.Time{}, nil
}

func (f selector) CountCommands(_ context.Context, run string, _ time.Time, newer id.ID) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.commands {
		if w.Run == run && slices.Compare(w.Event.ID[:], newer[:]) > 0 {
			n++
		}
	}
	return n, nil
}
