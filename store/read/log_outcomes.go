package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/fence"
)

const (
	// outcomesTimeout bounds the search for the outcomes of an event in the log.
	outcomesTimeout = 2 * time.Second
	// maxLogAttempts bounds the attempts of an event that are read from the log, each with up to 16 KiB.
	maxLogAttempts = 1000
	// justAccepted is the age of an event up to which it is shown as it was accepted, if its outcomes cannot be read.
	justAccepted = 5 * time.Second
)

// addOutcomesFromLog adds the deliveries and attempts of an event to a detail that has none. The log has them all, as
// it keeps outcomes until they are stored.
func (r eventReader) addOutcomesFromLog(ctx context.Context, detail *event.Detail) error {
	e := detail.Event
	rows, err := r.outcomesInLog(ctx, e.Account, e.ID)
	if err != nil {
		return fmt.Errorf("%w: read outcomes from the log: %w", event.ErrUnavailable, err)
	}
	var deliveries []event.Delivery
	for _, o := range rows.deliveries {
		deliveries = append(deliveries, deliveryOf(o.Outcome))
	}
	slices.SortFunc(deliveries, func(a, b event.Delivery) int { return cmp.Compare(a.Destination, b.Destination) })
	attempts := rows.addAttempts(nil, attemptRange{limit: detailAttempts, maxBody: detailBody})
	counts := make(map[string]attemptCount)
	slices.Reverse(attempts)
	for i := range attempts {
		a := &attempts[i]
		counts[a.Destination] = counts[a.Destination].plus(a.StartedAt)
		a.Number = counts[a.Destination].n
	}
	older := max(0, len(attempts)-detailAttempts)
	detail.Attempts, detail.AttemptsTruncated = attempts[older:], older > 0
	addDeliveries(detail, deliveries, counts, len(e.Body))
	return nil
}

// outcomesInLog reads the outcomes of an event. It returns an error if the log may not have all of them any more, or
// cannot be read in time.
func (r eventReader) outcomesInLog(ctx context.Context, account string, d id.ID) (*unstoredRows, error) {
	release, err := r.scans.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, r.outcomesTimeout)
	defer cancel()
	at := stream.Partition{Topic: stream.Outcomes, Index: d.Partition()}
	from, err := r.firstOffsetAfter(ctx, at, d)
	if err != nil {
		return nil, err
	}
	ends, err := r.Topic.Ends(ctx, at.Topic)
	if err != nil {
		return nil, err
	}
	rows := newUnstoredRows()
	if from >= ends[at] {
		return rows, nil
	}
	return rows, r.Topic.Read(ctx, at, from, func(record *stream.Record) error {
		head, err := event.DecodeOutcomeHead(record)
		if err == nil && head.Event == d { // one that cannot be decoded is a dead letter of the writer
			err = rows.addRecord(account, record)
		} else {
			err = nil
		}
		if err == nil && record.Offset >= ends[at]-1 {
			err = stream.ErrStop
		}
		return err
	})
}

// addRecord adds the outcome in a record.
func (u *unstoredRows) addRecord(account string, record *stream.Record) error {
	o, err := event.DecodeOutcome(record)
	if err != nil || o.Account != account {
		return err
	}
	version, err := o.Version(record.Offset)
	if err != nil {
		return err
	}
	u.addOutcome(o, version)
	if len(u.attempts) > maxLogAttempts {
		return errors.New("the event has too many attempts")
	}
	return nil
}

// firstOffsetAfter returns an offset of a partition below which the log never had a record about the event. It returns
// an error when such records may be trimmed.
func (r eventReader) firstOffsetAfter(ctx context.Context, at stream.Partition, d id.ID) (int64, error) {
	starts, err := r.Topic.Starts(ctx, at.Topic)
	if err != nil {
		return 0, err
	}
	// A record has the time of the node that wrote it, whose clock may be behind that of the event's node.
	since, err := r.Topic.OffsetsForTime(ctx, at.Topic, d.Time().Add(-fence.MaxIDSkew))
	if err != nil {
		return 0, err
	}
	ends, err := r.Topic.Ends(ctx, at.Topic)
	if err != nil {
		return 0, err
	}
	from, start := since[at], starts[at]
	if from < 0 { // no record that late
		from = ends[at]
	}
	if start == 0 || from > start {
		return from, nil
	}
	return 0, errors.New("the log may not have all records about the event any more")
}
