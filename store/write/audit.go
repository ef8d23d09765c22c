package write

import (
	"time"

	"github.com/eventrelay/relay/pkg/audit"
)

// auditRow is one row of audit.
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
		text("account", func(x r) string { return x.Account }),
		bytes16("id", func(x r) []byte { return x.ID[:] }),
		when("at", func(x r) time.Time { return x.At }),
		word("actor_type", func(x r) string { return string(x.Actor.Type) }),
		text("actor", func(x r) string { return x.Actor.ID }),
		text("actor_name", func(x r) string { return x.Actor.Name }),
		word("action", func(x r) string { return x.Action }),
		word("entity_type", func(x r) string { return x.EntityType }),
		text("entity", func(x r) string { return x.Entity }),
		col("changes", "Array(String)", func(x r) []string { return x.Changes }),
		text("request_id", func(x r) string { return x.RequestID }),
		col("remote_ip", "IPv6", func(x r) [16]byte { return ip16(x.RemoteIP) }),
		word("node", func(x r) string { return x.Node }),
		col("count", "UInt64", func(x r) uint64 { return x.Count }),
		when("last_at", func(x r) time.Time { return x.LastAt }),
		// Of a use the later line knows more; of a change there is one.
		col("ver", "UInt64", func(x r) uint64 { return uint64(millis(x.LastAt)) }),
	)
}
