package write

import (
	"context"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
)

// scanPause is the pause between two scans of events that wait for a flush: meanwhile more come, and one scan of many
// costs less than many scans of one.
const scanPause = 250 * time.Millisecond

// scanLoop scans payloads while their events wait for a flush, until ctx ends. A finding does not wait for the flush,
// and the flush scans only what is left.
func (l *loader) scanLoop(ctx context.Context) error {
	for {
		select {
		case <-l.scanWake:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.scan(ctx, l.unscannedWaiting); err != nil {
			return err
		}
		if err := wait.For(ctx, scanPause); err != nil {
			return err
		}
	}
}

// unscannedWaiting returns the rows to scan of the batch that is being filled. It leaves erased payloads to the flush,
// which removes them first.
func (l *loader) unscannedWaiting() []unscannedRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filling.unscanned(l.deps.Erased)
}

// startScan scans the events of a batch that scanLoop has not scanned. The channel gets the error when that has ended;
// stop ends it and waits.
func (l *loader) startScan(ctx context.Context, b *batch) (scanned <-chan error, stop func()) {
	ended := make(chan error, 1)
	if l.deps.Scan == nil || len(sinkOf[*eventRow](b).rows) == 0 {
		ended <- nil
		return ended, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { ended <- l.scan(ctx, func() []unscannedRow { return b.unscanned(nil) }) })
	return ended, func() {
		cancel()
		running.Wait()
	}
}

// scan scans what unscanned returns. One scan of a loader runs at a time, so a flush also waits for the events that
// scanLoop is scanning. An error is that of ctx; the rows then count as not scanned.
func (l *loader) scan(ctx context.Context, unscanned func() []unscannedRow) error {
	select {
	case l.scanning <- struct{}{}:
		defer func() { <-l.scanning }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rows := unscanned()
	if len(rows) == 0 {
		return nil
	}
	events := make([]*event.Event, len(rows))
	for i, r := range rows {
		events[i] = r.event
	}
	if err := l.deps.Scan(ctx, events); err != nil {
		return err
	}
	for _, r := range rows {
		r.row.scanned = true
	}
	return nil
}

// unscannedRow is a row with the event to scan: a flush may replace the row's event meanwhile.
type unscannedRow struct {
	row   *eventRow
	event *event.Event
}

// unscanned returns the rows of events whose payloads were not scanned, without the erased ones. Nil: none is erased.
func (b *batch) unscanned(erased func(id.ID) bool) (rows []unscannedRow) {
	for _, r := range sinkOf[*eventRow](b).rows {
		if !r.scanned && (erased == nil || !erased(r.ID)) {
			rows = append(rows, unscannedRow{r, r.Event})
		}
	}
	return rows
}
