package write

import (
	"fmt"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// source is where a row came from: the record, which is kept for the topic dead, and the assignment
// that it was read under.
type source struct {
	record *stream.Record
	place  *place
}

func (s source) origin() source { return s }

// row is what every kind of row has in common.
type row interface {
	origin() source
	about() id.ID // whose shard it goes to
}

func (r *eventRow) about() id.ID    { return r.ID }
func (r *deliveryRow) about() id.ID { return r.Outcome.Event }
func (r *receiptRow) about() id.ID  { return r.Event }
func (r *auditRow) about() id.ID    { return r.Entry.ID }

// eventRow is one row of events.
type eventRow struct {
	*event.Event
	source
	duplicate id.ID
	size      uint32 // of the body as it came
}

// deliveryRow is one row of deliveries and, when it has an attempt, one of attempts.
type deliveryRow struct {
	*event.Outcome
	source
	version event.Version
}

// isFirst reports whether this is the first that is said about the delivery for all the row can tell.
func (r *deliveryRow) isFirst() bool {
	return r.Attempt != nil && r.Attempt.Trigger == event.TriggerInitial && r.Run == "" && !r.WasParked
}

// receiptRow is one row of receipts.
type receiptRow struct {
	*event.Receipt
	source
}

// decodeEvent reads a record of events.
func decodeEvent(s source) (*eventRow, error) {
	e, err := event.Decode(s.record)
	if err != nil {
		return nil, err
	}
	row := &eventRow{Event: e, source: s, size: uint32(len(e.Body))}
	if e.DuplicateOf != "" {
		if row.duplicate, err = id.Parse(id.Event, e.DuplicateOf); err != nil {
			return nil, fmt.Errorf("read duplicate_of: %w", err)
		}
	}
	return row, nil
}

// decodeCommand turns a command of a run into the pending delivery that it asks for, so that a replay is
// seen before its first attempt. It gets the lowest version of its run: any outcome is newer.
func decodeCommand(s source) (*deliveryRow, error) {
	w, err := event.DecodeWork(s.record)
	if err != nil || w.Run == "" {
		return nil, err
	}
	version, err := event.QueuedVersion(w.Run)
	if err != nil {
		return nil, err
	}
	return &deliveryRow{
		Outcome: &event.Outcome{
			Event: w.Event.ID, Account: w.Event.Account, Endpoint: w.Event.Endpoint, Dest: w.Dest, Type: w.Event.Type,
			Status: event.Pending, Reason: event.Queued, NextAt: w.Due, At: s.record.Timestamp, Run: w.Run,
		},
		source: s, version: version,
	}, nil
}

// decodeOutcome reads a record of outcomes.
func decodeOutcome(s source) (*deliveryRow, error) {
	o, err := event.DecodeOutcome(s.record)
	if err != nil {
		return nil, err
	}
	version, err := o.Version(s.record.Offset)
	if err != nil {
		return nil, err
	}
	return &deliveryRow{Outcome: o, source: s, version: version}, nil
}

// decodeReceipt reads a record of receipts.
func decodeReceipt(s source) (*receiptRow, error) {
	x, err := event.DecodeReceipt(s.record)
	if err != nil {
		return nil, err
	}
	return &receiptRow{Receipt: x, source: s}, nil
}

// billed reports whether the event counts against the allowance: duplicates, rejected and test events
// do not.
func (r *eventRow) billed() uint8 {
	if r.Verdict == event.VerdictRejected || r.Reason == event.Duplicate || r.Source == event.SourceTest {
		return 0
	}
	return 1
}

// mediaType is the content type without its parameters, which would make every row its own word.
func (r *eventRow) mediaType() string {
	const longest = 100 // bytes; registered names are at most 127 and mostly below 80
	m, _, _ := strings.Cut(r.ContentType(), ";")
	m = strings.ToLower(strings.TrimSpace(m))
	return m[:min(len(m), longest)]
}
