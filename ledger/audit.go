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
	return audit(ctx, reader, span)
}

func audit(ctx context.Context, l log, span Span) (Report, error) {
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
	a := &auditor{log: l, cut: c, span: span, pace: pace{perSecond: span.PerSecond}, times: make(map[place]map[stream.Partition]int64)}
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
	pace   pace
	times  map[place]map[stream.Partition]int64 // offsets that were asked for before
	report Report
}

// place is a time in a topic.
type place struct {
	topic string
	at    time.Time
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
	since, err := a.reach(ctx, partition)
	if err != nil {
		return err
	}
	if since.After(a.report.Since) {
		a.report.Since = since
	}
	events, err := a.stretch(ctx, stream.Events, partition, since, a.span.Until)
	if err != nil {
		return err
	}
	b := newBook(a.span.Limit)
	books := map[int32]*book{partition: b}
	if err := readInto(ctx, a.log, &a.pace, books, []stream.Range{events}); err != nil {
		return err
	}
	if b.size() == 0 {
		return nil
	}
	if !since.IsZero() {
		since = since.Add(-clockSlack)
	}
	var words []stream.Range
	for _, topic := range []string{stream.Commands, stream.Outcomes, stream.Dead} {
		r, err := a.stretch(ctx, topic, partition, since, time.Time{})
		if err != nil {
			return err
		}
		words = append(words, r)
	}
	if err := readInto(ctx, a.log, &a.pace, books, words); err != nil {
		return err
	}
	j := a.cut.judge(b, partition)
	if err := seek(ctx, a.log, &a.pace, books, a.cut, j.want()); err != nil {
		return err
	}
	j.run()
	a.report.add(j.counts)
	a.report.Lost = append(a.report.Lost, j.lost[:min(len(j.lost), maxLost-len(a.report.Lost))]...)
	a.report.Unreadable += b.unreadable
	a.report.Unnamed += b.unnamed
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
func (a *auditor) stretch(ctx context.Context, topic string, partition int32, since, until time.Time) (stream.Range, error) {
	p := stream.Partition{Topic: topic, Index: partition}
	r := stream.Range{Partition: p, From: a.cut.starts[p], To: a.cut.ends[p]}
	if !since.IsZero() {
		from, err := a.at(ctx, p, since)
		if err != nil {
			return r, err
		}
		r.From = max(r.From, from)
	}
	if !until.IsZero() {
		to, err := a.at(ctx, p, until)
		if err != nil {
			return r, err
		}
		r.To = min(r.To, to)
	}
	return r, nil
}

// at is the first offset that is not older than t. The log answers for all partitions of a topic at once.
func (a *auditor) at(ctx context.Context, p stream.Partition, t time.Time) (int64, error) {
	where := place{p.Topic, t}
	if a.times[where] == nil {
		offsets, err := a.log.At(ctx, p.Topic, t)
		if err != nil {
			return 0, err
		}
		a.times[where] = offsets
	}
	return a.times[where][p], nil
}

// reach returns where to begin in a partition: at the span's begin, or later if the log no longer holds all
// outcomes of the events since then.
func (a *auditor) reach(ctx context.Context, partition int32) (time.Time, error) {
	p, since := stream.Partition{Topic: stream.Outcomes, Index: partition}, a.span.Since
	start := a.cut.starts[p]
	if start == 0 {
		return since, nil
	}
	whole := time.Now() // none is left: nothing that was accepted before can be judged
	if start < a.cut.ends[p] {
		first := []stream.Range{{Partition: p, From: start, To: start + 1}}
		err := a.log.ReadRanges(ctx, first, func(_ stream.Partition, records []*stream.Record) error {
			whole = records[0].Timestamp.Add(clockSlack)
			return nil
		})
		if err != nil {
			return since, err
		}
	}
	if whole.After(since) {
		return whole, nil
	}
	return since, nil
}
