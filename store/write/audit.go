package write

import (
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/store/internal/column"
)

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
