package write

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
)

// source is where a row came from: the record, which is kept for the dead letter topic, and the assignment under which
// it was read.
type source struct {
	record     *stream.Record
	assignment *assignment
}

func (s source) recordSource() source { return s }
func (source) tableRows() int         { return 1 }

// row is what all kinds of rows have in common.
type row interface {
	recordSource() source
	tableRows() int // how many rows it makes, besides those of candidate tables
	shardID() id.ID // decides the shard: the id of the row's event, entry or finding, or a hash
}

func (r *eventRow) shardID() id.ID    { return r.ID }
func (r *deliveryRow) shardID() id.ID { return r.Outcome.Event }
func (r *receiptRow) shardID() id.ID  { return r.Event }
func (r *auditRow) shardID() id.ID    { return r.Entry.ID }
func (r *hitRow) shardID() id.ID      { return r.findingID }
func (r *senderRow) shardID() id.ID   { return ch.IDOf(r.Sender) }

// eventRow is one row of the table events.
type eventRow struct {
	*event.Event
	source
	duplicate id.ID
	size      uint32 // of the received body, in bytes
	scanned   bool   // the payload was scanned for secrets; used by loader.scan only
	key       string // of a row of event_keys
}

// deliveryRow is one row of deliveries, and one of attempts if it has an attempt.
type deliveryRow struct {
	*event.Outcome
	source
	version event.Version
}

func (r *deliveryRow) hasAttempt() bool { return r.Attempt != nil }

func (r *deliveryRow) tableRows() int {
	if r.hasAttempt() {
		return 2
	}
	return 1
}

// isFirstOutcome reports whether this is the first outcome of the delivery, as far as the row can tell.
func (r *deliveryRow) isFirstOutcome() bool {
	return r.Attempt != nil && r.Attempt.Trigger == event.TriggerInitial && r.Run == "" && !r.WasParked
}

// receiptRow is one row of the table receipts.
type receiptRow struct {
	*event.Receipt
	source
}

// decodeEvent decodes a record of the topic events. The use of a tripwire makes no row.
func decodeEvent(s source) (*eventRow, error) {
	e, err := event.Decode(s.record)
	if err != nil || e.Source.IsUse() {
		return nil, err
	}
	return newEventRow(e, s)
}

func newEventRow(e *event.Event, s source) (row *eventRow, err error) {
	row = &eventRow{Event: e, source: s, size: uint32(len(e.Body))}
	if e.DuplicateOf != "" {
		if row.duplicate, err = id.Parse(id.Event, e.DuplicateOf); err != nil {
			return nil, fmt.Errorf("read duplicate_of: %w", err)
		}
	}
	return row, nil
}

// decodeCommand turns the command of a run into a pending delivery, so that a replay is visible before its first
// attempt. It gets the lowest version of its run: every outcome is newer. Other commands make no row.
func decodeCommand(s source) (*deliveryRow, error) {
	command, err := event.DecodeWork(s.record)
	if err != nil || command.Run == "" {
		return nil, err
	}
	version, err := event.QueuedVersion(command.Run)
	if err != nil {
		return nil, err
	}
	return &deliveryRow{
		Outcome: &event.Outcome{
			Event: command.Event.ID, Account: command.Event.Account, Endpoint: command.Event.Endpoint, Dest: command.Dest,
			Type:   command.Event.Type,
			Status: event.Pending, Reason: event.Queued, NextAt: command.Due, At: s.record.Timestamp, Run: command.Run,
		},
		source: s, version: version,
	}, nil
}

// decodeOutcome decodes a record of the topic outcomes.
func decodeOutcome(s source) (*deliveryRow, error) {
	o, err := event.DecodeOutcome(s.record)
	if err != nil {
		return nil, err
	}
	return newDeliveryRow(o, s)
}

func newDeliveryRow(o *event.Outcome, s source) (*deliveryRow, error) {
	version, err := o.Version(s.record.Offset)
	if err != nil {
		return nil, err
	}
	return &deliveryRow{Outcome: o, source: s, version: version}, nil
}

// decodeReceipt decodes a record of the topic receipts.
func decodeReceipt(s source) (*receiptRow, error) {
	x, err := event.DecodeReceipt(s.record)
	if err != nil {
		return nil, err
	}
	return &receiptRow{Receipt: x, source: s}, nil
}

// billed is 1 if the event counts against the allowance: duplicates, rejected events and test events do not.
func (r *eventRow) billed() uint8 {
	if r.Verdict == event.VerdictRejected || r.Reason == event.Duplicate || r.Source == event.SourceTest {
		return 0
	}
	return 1
}

// mediaType is the content type without its parameters; with them nearly every row would have a distinct value, which
// defeats LowCardinality.
func (r *eventRow) mediaType() string {
	const longest = 100 // bytes; registered names are at most 127 and mostly below 80
	m, _, _ := strings.Cut(r.ContentType(), ";")
	m = strings.ToLower(strings.TrimSpace(m))
	return m[:min(len(m), longest)]
}

// candidateTables returns the tables with one row for each of the few deliveries that failed, wait or belong to a run.
// Lists read them to find rows that may match, then the table deliveries decides; only run_deliveries is an answer by
// itself. Most flushes have no row for any of them, so the writer inserts them instead of a materialised view, which
// would cost time in every insert.
func candidateTables() []*table[*deliveryRow] {
	type r = *deliveryRow
	account := column.Text("account", func(x r) string { return x.Account })
	eventID := column.ID("id", func(x r) []byte { return x.Event[:] })
	ts := column.Timestamp("ts", func(x r) time.Time { return x.Event.Time() })
	dest := column.Text("dest", func(x r) string { return x.Dest })
	endpoint := column.Text("endpoint", func(x r) string { return x.Endpoint })
	eventType := column.LowCardinality("type", func(x r) string { return x.Type })
	status := column.LowCardinality("status", func(x r) string { return string(x.Status) })
	return []*table[*deliveryRow]{
		newTable("failure_candidates_by_endpoint", account, endpoint, eventID, dest, ts).of(r.isUndelivered),
		newTable("failure_candidates", account, eventID, dest, ts, endpoint, eventType, status,
			column.Typed("ver", "UInt128", func(x r) *big.Int { return x.version.Big() }),
		).of(func(x r) bool { return !x.isFirstOutcome() || x.isUndelivered() }),
		newTable("run_deliveries", account, column.Text("run", func(x r) string { return x.Run }), eventID, dest, ts, status,
			column.LowCardinality("reason", func(x r) string { return string(x.Reason) }),
			column.LowCardinality("skipped", func(x r) string { return string(x.SkipReason) }),
			column.Typed("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }),
			column.Timestamp("last_at", func(x r) time.Time { return x.At }),
			column.Typed("ver", "UInt128", r.versionInRun),
		).of(r.isOfRun),
		// A replay may send to a destination that the event itself did not have.
		newTable("event_keys", account, column.Text("key", func(x r) string { return "dest:" + x.Dest }), eventID, ts).
			of(r.isOfRun),
	}
}

// isUndelivered reports whether the delivery failed, waits, or is held.
func (r *deliveryRow) isUndelivered() bool {
	return r.Status != event.Delivered && r.Status != event.Skipped
}

func (r *deliveryRow) isOfRun() bool { return r.Run != "" }

// versionInRun lets a failure outrank every later row of the same run. A copy of the command may be skipped later
// because the failure has stopped the run; that must not hide the failure.
func (r *deliveryRow) versionInRun() *big.Int {
	v := r.version
	if r.Status == event.Failed && r.SkipReason == "" {
		v.Lo |= 1 << 63 // above the offset and below the rank
	}
	return v.Big()
}

// auditRow is one row of the table audit.
type auditRow struct {
	*audit.Entry
	source
}

// decodeAudit reads a record of the topic audit.
func decodeAudit(s source) (*auditRow, error) {
	e, err := audit.Decode(s.record)
	if err != nil {
		return nil, err
	}
	return &auditRow{Entry: e, source: s}, nil
}

func auditTable() *table[*auditRow] {
	type r = *auditRow
	return newTable("audit",
		column.Text("account", func(x r) string { return x.Account }),
		column.ID("id", func(x r) []byte { return x.ID[:] }),
		column.Timestamp("at", func(x r) time.Time { return x.At }),
		column.LowCardinality("actor_type", func(x r) string { return string(x.Actor.Type) }),
		column.Text("actor", func(x r) string { return x.Actor.ID }),
		column.Text("actor_name", func(x r) string { return x.Actor.Name }),
		column.LowCardinality("action", func(x r) string { return x.Action }),
		column.LowCardinality("entity_type", func(x r) string { return x.EntityType }),
		column.Text("entity", func(x r) string { return x.Entity }),
		column.Typed("changes", "Array(String)", func(x r) []string { return x.Changes }),
		column.Text("request_id", func(x r) string { return x.RequestID }),
		column.Typed("remote_ip", "IPv6", func(x r) [16]byte { return column.IPToBytes(x.RemoteIP) }),
		column.Text("related", func(x r) string { return x.Related }),
		column.LowCardinality("node", func(x r) string { return x.Node }),
		column.Typed("count", "UInt64", func(x r) uint64 { return x.Count }),
		column.Timestamp("last_at", func(x r) time.Time { return x.LastAt }),
		// The row that counts the uses of an API key in an hour is written again with a later last_at, and the latest wins.
		// A change has one row.
		column.Typed("ver", "UInt64", func(x r) uint64 { return uint64(column.TimeToMillis(x.LastAt)) }),
	)
}
