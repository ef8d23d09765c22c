package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Span is what an audit looks at: the events that were accepted in [Since, Until), and everything that
// has been said about them since.
type Span struct {
	Since, Until time.Time // zero: as far back as the log goes; up to now
	Partitions   []int32   // nil = all
	// Limit is how much one partition may hold, in events and deliveries: ErrTooMany beyond it. A million takes
	// about 100 MB. 0 = DefaultLimit.
	Limit int
	// PerSecond bounds how many records are read in a second; 0 = as many as possible.
	PerSecond int
}

// DefaultLimit of a Span.
const DefaultLimit = 1_000_000

// clockSlack is how far the time of a record may be ahead of that of a record which was produced after it
// on another node: ids run at most 30 s ahead of a clock, and a clock 30 s from that of the brokers.
const clockSlack = 2 * time.Minute

// Audit counts what became of the events of a span, from the log alone. It may run while traffic flows: what
// it calls residue is lost, at whatever moment it looks (see cut).
//
// It reads the events of the span, all commands, outcomes and buried records since, and the retry topics if
// anything is still open; one partition after the other. ErrTooMany asks for a shorter span, and
// stream.ErrTrimmed means that the log deleted records under the audit: begin again.
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
	c, err := takeCut(ctx, l)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	a := &auditor{log: l, cut: c, span: span, now: now, pace: pace{perSecond: span.PerSecond}, times: timeline{log: l}}
	a.report.Since = span.Since
	for _, partition := range c.partitions(span.Partitions) {
		if err := a.partition(ctx, partition); err != nil {
			return Report{}, fmt.Errorf("audit: %w", err)
		}
	}
	a.report.Records = a.pace.read
	a.report.sort()
	return a.report, nil
}

// auditor is one audit.
type auditor struct {
	log    log
	cut    cut
	span   Span
	now    time.Time
	pace   pace
	times  timeline
	report Report
}

// partitions are those of the topic events that are wanted.
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
	since, err := a.cut.reach(ctx, a.log, partition, a.span.Since, a.now)
	if err != nil {
		return err
	}
	if since.After(a.report.Since) {
		a.report.Since = since
	}
	events, err := a.stretch(ctx, stream.Events, partition, since, a.span.Until)
	if err != nil || events.From >= events.To {
		return err
	}
	if !since.IsZero() {
		since = since.Add(-clockSlack)
	}
	ranges := []stream.Range{events}
	for _, topic := range append(said(), stream.Commands) {
		r, err := a.stretch(ctx, topic, partition, since, time.Time{})
		if err != nil {
			return err
		}
		ranges = append(ranges, r)
	}
	b := newBook(a.span.Limit)
	books := map[int32]*book{partition: b}
	if err := readInto(ctx, a.log, &a.pace, books, ranges); err != nil {
		return err
	}
	j := a.cut.judge(b, partition)
	if err := seek(ctx, a.log, &a.pace, books, a.cut, j.want()); err != nil {
		return err
	}
	j.run()
	a.report.add(j.counts)
	a.report.Lost = append(a.report.Lost, j.lost[:min(len(j.lost), maxLost-len(a.report.Lost))]...)
	a.report.UndecodableOutcomes += b.unreadable
	a.report.UnidentifiedDead += b.unnamed
	return nil
}

// judge judges a book by the cut.
func (c cut) judge(b *book, partition int32) *judge {
	return &judge{
		book: b, partition: partition, events: c.done[stream.Partition{Topic: stream.Events, Index: partition}],
		commands: c.done[stream.Partition{Topic: stream.Commands, Index: partition}],
	}
}

// stretch is what was appended to a partition of a topic between two times, and before the cut.
func (a *auditor) stretch(ctx context.Context, topic string, partition int32, since, until time.Time) (
	stream.Range, error) {
	p := stream.Partition{Topic: topic, Index: partition}
	r := stream.Range{Partition: p, From: a.cut.starts[p], To: a.cut.ends[p]}
	if !since.IsZero() {
		from, err := a.times.at(ctx, p, since)
		if err != nil {
			return r, err
		}
		r.From = max(r.From, from)
	}
	if !until.IsZero() {
		to, err := a.times.at(ctx, p, until)
		if err != nil {
			return r, err
		}
		r.To = min(r.To, to)
	}
	return r, nil
}
