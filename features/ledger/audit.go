package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Span selects what an audit counts: the events that were accepted in [Since, Until), with all their outcomes up to
// now.
type Span struct {
	Since, Until time.Time // zero Since: the start of the log; zero Until: now
	Partitions   []int32   // nil = all
	// Limit bounds the events and deliveries of one partition that are kept in memory; beyond it Audit returns
	// ErrTooMany. A million take about 100 MB. 0 = DefaultLimit.
	Limit int
	// PerSecond bounds the records that are read per second; 0 = no bound.
	PerSecond int
}

// DefaultLimit is the Limit of a Span that sets none.
const DefaultLimit = 1_000_000

// clockSlack is more than the timestamp of a record can be ahead of one that was produced later on another node: ids
// run at most 30 s ahead of a clock, and a clock differs at most 30 s from the brokers'.
const clockSlack = 2 * time.Minute

// Audit counts what became of the events of a span, from the log alone. It may run under load: what it counts as
// lost is lost, whenever it runs (see cut).
//
// It reads the events of the span, all commands, outcomes and dead letters since, and the retry topics if deliveries
// are open, one partition after the other. ErrTooMany means that the span must be shorter. stream.ErrTrimmed means
// that retention deleted records during the audit: call Audit again.
func Audit(ctx context.Context, c stream.Config, span Span) (Report, error) {
	reader, err := stream.NewReader(c, "ledger")
	if err != nil {
		return Report{}, err
	}
	defer reader.Close()
	return audit(ctx, reader, span, time.Now())
}

func audit(ctx context.Context, l log, span Span, now time.Time) (Report, error) {
	if span.Limit == 0 {
		span.Limit = DefaultLimit
	}
	if !span.Until.IsZero() && span.Until.Before(span.Since) {
		return Report{}, errors.New("audit: the span ends before it begins")
	}
	c, err := readCut(ctx, l)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	a := &auditor{log: l, cut: c, span: span, now: now, throttle: throttle{perSecond: span.PerSecond},
		times: offsetCache{log: l}}
	a.report.Since = span.Since
	for _, partition := range c.partitions(span.Partitions) {
		if err := a.partition(ctx, partition); err != nil {
			return Report{}, fmt.Errorf("audit: %w", err)
		}
	}
	a.report.Records = a.throttle.read
	a.report.sort()
	return a.report, nil
}

// auditor is one audit.
type auditor struct {
	log      log
	cut      cut
	span     Span
	now      time.Time
	throttle throttle
	times    offsetCache
	report   Report
}

// partitions returns the wanted partitions of the topic events.
func (c cut) partitions(wanted []int32) (all []int32) {
	for p := range c.ends {
		if p.Topic == stream.Events && (wanted == nil || slices.Contains(wanted, p.Index)) {
			all = append(all, p.Index)
		}
	}
	slices.Sort(all)
	return all
}

// partition audits one partition.
func (a *auditor) partition(ctx context.Context, partition int32) error {
	since, err := a.cut.completeFrom(ctx, a.log, partition, a.span.Since, a.now)
	if err != nil {
		return err
	}
	if since.After(a.report.Since) {
		a.report.Since = since
	}
	events, err := a.rangeBetween(ctx, stream.Events, partition, since, a.span.Until)
	if err != nil || events.From >= events.To {
		return err
	}
	if !since.IsZero() {
		since = since.Add(-clockSlack)
	}
	ranges := []stream.Range{events}
	for _, topic := range append(outcomeTopics(), stream.Commands) {
		r, err := a.rangeBetween(ctx, topic, partition, since, time.Time{})
		if err != nil {
			return err
		}
		ranges = append(ranges, r)
	}
	b := newBook(a.span.Limit)
	books := map[int32]*book{partition: b}
	if err := fillBooks(ctx, a.log, &a.throttle, books, ranges); err != nil {
		return err
	}
	r := a.cut.newReconciler(b, partition)
	if err := searchRetryTopics(ctx, a.log, &a.throttle, books, a.cut, r.markWanted()); err != nil {
		return err
	}
	r.reconcileAll()
	a.report.add(r.counts)
	a.report.Losses = append(a.report.Losses, r.lost[:min(len(r.lost), maxLost-len(a.report.Losses))]...)
	a.report.UndecodableOutcomes += b.undecodable
	a.report.UnidentifiedDead += b.unidentified
	return nil
}

// newReconciler returns a reconciler of a book against the cut.
func (c cut) newReconciler(b *book, partition int32) *reconciler {
	return &reconciler{
		book: b, partition: partition, eventsDone: c.done[stream.Partition{Topic: stream.Events, Index: partition}],
		commandsDone: c.done[stream.Partition{Topic: stream.Commands, Index: partition}],
	}
}

// rangeBetween returns the records of a topic's partition between two times and before the cut.
func (a *auditor) rangeBetween(ctx context.Context, topic string, partition int32, since, until time.Time) (
	stream.Range, error) {
	p := stream.Partition{Topic: topic, Index: partition}
	r := stream.Range{Partition: p, From: a.cut.starts[p], To: a.cut.ends[p]}
	if !since.IsZero() {
		from, err := a.times.offset(ctx, p, since)
		if err != nil {
			return r, err
		}
		r.From = max(r.From, from)
	}
	if !until.IsZero() {
		to, err := a.times.offset(ctx, p, until)
		if err != nil {
			return r, err
		}
		r.To = min(r.To, to)
	}
	return r, nil
}
