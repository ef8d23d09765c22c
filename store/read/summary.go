package read

import (
	"context"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// Summaries returns the list rows of the stored events among ids; the caller passes at most 1,000 ids. It waits for the
// fence; when the store is behind, the newest events and outcomes may be missing.
func (r *Reader) Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if _, err := r.Fence.WaitAll(ctx); err != nil {
		return nil, err
	}
	out := make(map[id.ID]event.Summary, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	newest := slices.SortedFunc(slices.Values(ids), id.NewestFirst)
	newest = slices.Compact(newest)
	q := ch.WhereIDs(selectEvents(tableEvents).Add(" WHERE account = ", account), newest)
	found, _, err := rowReader{Reader: r}.readEvents(ctx, account, q, 0)
	if err != nil {
		return nil, err
	}
	if err := (rowReader{Reader: r}).addAttemptsAndReceipts(ctx, account, found, true); err != nil {
		return nil, err
	}
	for i := range found {
		out[found[i].ID] = found[i].summary
	}
	return out, nil
}
