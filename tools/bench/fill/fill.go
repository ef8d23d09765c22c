// Package fill fills the store with up to a billion events that look like those of a busy service, so that reads can
// be measured at that size. Config says how many events, days and endpoints. Run writes the rows through write.Sinks,
// which has the columns of the writer, day by day from the oldest on. The same configuration and seed give the same
// events but for the random part of their ids. Nothing is written to the log: filled events can be delivered only by
// a replay or a recovery job. Run generates the rows of the next insert while it writes the last one, and holds the
// rows of two inserts. Begin with Run, then generate.go and outcomes.go.
package fill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config says what to fill the store with.
type Config struct {
	// Account is the account that all events belong to.
	Account string
	// Endpoints are ordered from the busiest to the rarest: the nth gets about 1/n of the events of the first.
	Endpoints []Endpoint
	// Events is the number of events.
	Events int
	// Days is how far back they go; the newest is a few seconds old.
	Days int
	// Batch is the number of events of one insert; 0 = 50,000.
	Batch int
	// Outage is the number of consecutive events of the second endpoint that failed finally two days ago, for a
	// recovery job to select. They are included in Events and at most half of them.
	Outage int
	// Merge merges the parts of every partition when all is written.
	Merge bool
	// Seed is the seed of the random events.
	Seed uint64
}

// Endpoint is an endpoint that receives events.
type Endpoint struct {
	ID    string
	Dests []Destination
}

// Destination is where an endpoint delivers to.
type Destination struct{ ID, URL string }

// Limits of a configuration.
const (
	defaultBatch, mostBatch = 50_000, 100_000
	mostEvents, mostDays    = 1_000_000_000, 366
)

// Validate reports all faults at once.
func (c Config) Validate() error {
	between := func(name string, n, most int) error {
		if n < 1 || n > most {
			return fmt.Errorf("fill: %s must be 1 to %d, not %d", name, most, n)
		}
		return nil
	}
	err := errors.Join(between("events", c.Events, mostEvents), between("days", c.Days, mostDays),
		between("batch", c.Batch, mostBatch),
		between("endpoints", len(c.Endpoints), 1_000_000))
	if c.Outage < 0 || c.Outage > c.Events/2 {
		err = errors.Join(err, fmt.Errorf("fill: outage must be 0 to half of the events, not %d", c.Outage))
	}
	if c.Account == "" {
		err = errors.Join(err, errors.New("fill: account is missing"))
	}
	for _, e := range c.Endpoints {
		if e.ID == "" || len(e.Dests) == 0 {
			return errors.Join(err, fmt.Errorf("fill: endpoint %q has no id or no destination", e.ID))
		}
	}
	return err
}

// Progress is the progress of Run.
type Progress struct {
	Events, Of int
	Took       time.Duration
	Step       string // the current step, in words
}

// Left estimates how long writing the other events will take at the speed so far.
func (p Progress) Left() time.Duration {
	if p.Events == 0 {
		return 0
	}
	return time.Duration(float64(p.Took) * float64(p.Of-p.Events) / float64(p.Events))
}

// Result is what Run has written.
type Result struct {
	Events, Deliveries, Attempts, Receipts int
	From, To                               time.Time
	Wrote, Counted, Merged                 time.Duration // of writing, of counting the usage, of merging
	Tables                                 []TableSize
}

// Run writes the events into the ClickHouse at a URL, whose tables must exist. It calls told after every insert and
// before other steps.
func Run(ctx context.Context, url string, cfg Config, told func(Progress)) (r Result, err error) {
	cfg.Batch = cmp.Or(cfg.Batch, defaultBatch)
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	bulk, err := OpenBulk(url)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, bulk.Close()) }()
	began := time.Now()
	w := newGenerator(cfg, began.UTC())
	r.From, r.To = w.from, w.to
	if err := insert(ctx, bulk, w, cfg, &r, told); err != nil {
		return r, err
	}
	r.Wrote = time.Since(began)
	said := func(step string) {
		told(Progress{Events: r.Events, Of: cfg.Events, Took: time.Since(began), Step: step})
	}
	said("counting the usage of each hour")
	counting := time.Now()
	if err := bulk.CountHours(ctx, w.from, w.to); err != nil {
		return r, err
	}
	r.Counted = time.Since(counting)
	if cfg.Merge {
		said("merging")
		merging := time.Now()
		if err := bulk.Merge(ctx); err != nil {
			return r, err
		}
		r.Merged = time.Since(merging)
	}
	r.Tables, err = bulk.Sizes(ctx)
	return r, err
}

// insert generates one batch while the last one is inserted.
func insert(ctx context.Context, bulk *Bulk, w *generator, cfg Config, r *Result, told func(Progress)) error {
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	made := make(chan *rows) // generated batches
	free := make(chan *rows, 2)
	free <- new(rows)
	free <- new(rows)
	g.Go(func() error {
		defer close(made)
		for {
			var b *rows
			select {
			case b = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !w.next(b, cfg.Batch) {
				return nil
			}
			select {
			case made <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	g.Go(func() error {
		for b := range made {
			if err := bulk.Insert(ctx, b.Events, b.Outcomes, b.Receipts, b.Offset); err != nil {
				return err
			}
			r.Events += len(b.Events)
			r.Deliveries += len(b.Outcomes)
			r.Attempts += b.attempts
			r.Receipts += len(b.Receipts)
			told(Progress{Events: r.Events, Of: cfg.Events, Took: time.Since(began), Step: "writing"})
			free <- b
		}
		return ctx.Err()
	})
	return g.Wait()
}
