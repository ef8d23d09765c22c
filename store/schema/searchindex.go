package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/eventrelay/relay/store/ch"
)

// The text index is a Bloom filter of 4-grams for each granule of events. It says that a granule has no event with a
// text, or it says nothing. The conditions of a search stay in the statement, so its answer does not depend on the
// index, on how much of it is built, or on whether it exists.
//
// It indexes one expression: everything that a search looks at, in lower case. Invalid UTF-8 is replaced, because the
// index would read the bytes after it as part of the same character. The expression has no constants, because indexHint
// does not match an expression with them. So there is no separator after the body, and the time stands before the id to
// align it: an id's text has 2 zero bits before the 128 of the id, and the time has 19 bytes, 2 bits more than a
// multiple of 5. So base32 yields the letters of the id's text, in its own alphabet, except for the first.

const (
	textIndex = "by_text"
	// textIndexKind has 4-grams, a filter of 64 KiB and one hash: a granule has hundreds of thousands of grams, and a
	// useful search text has several.
	textIndexKind = "ngrambf_v1(4, 65536, 1, 0)"
	// IndexedText is the expression that the index is built over.
	IndexedText ch.SQL = "toValidUTF8(lower(concat(body, headers, base32Encode(concat(toString(toDateTime(ts)), id)))))"
	// inBackground lets a change of all parts run in the background. The embedded engine would otherwise wait for it,
	// as long as it takes, and for ever while merges are stopped.
	inBackground = " SETTINGS mutations_sync = 0"
)

// searchIndex renders the statements that add the text index and build it for stored rows, in the background.
func (d target) searchIndex() []string {
	return []string{
		d.alterEvents("ADD INDEX IF NOT EXISTS " + textIndex + " " + string(IndexedText) +
			" TYPE " + textIndexKind + " GRANULARITY 1"),
		d.alterEvents("MATERIALIZE INDEX " + textIndex + inBackground),
	}
}

// noSearchIndex renders the statements that drop the text index. ClickHouse refuses to drop an index that is being
// built, which may take hours, so the mutation that builds it is ended first.
func (d target) noSearchIndex() []string {
	return []string{
		d.fill("KILL MUTATION" + d.onCluster() + " WHERE database = '{db}' AND table = 'events' AND NOT is_done AND " +
			"command LIKE '%MATERIALIZE INDEX " + textIndex + "%' SYNC"),
		d.alterEvents("DROP INDEX IF EXISTS " + textIndex + inBackground),
	}
}

func (d target) alterEvents(change string) string {
	return d.fill("ALTER TABLE {db}.events" + d.onCluster() + " " + change)
}

// onCluster is the part of a statement that makes it run on every node of the cluster, if there is one.
func (d target) onCluster() string {
	if d.cluster == "" {
		return ""
	}
	return " ON CLUSTER '" + d.cluster + "'"
}

// setSearchIndex adds or removes the text index as the configuration says. It does not wait for the index to be built:
// searches read rows without an index entry too.
func (m migration) setSearchIndex(ctx context.Context) error {
	var kind, lastMutation string
	q := new(ch.Query).Add("SELECT any(type_full) FROM system.data_skipping_indices "+
		"WHERE table = 'events' AND name = 'by_text' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&kind); err != nil {
		return fmt.Errorf("read the text index: %w", err)
	}
	// The newest mutation of the index: an earlier migration may have been interrupted between adding and building it.
	q = new(ch.Query).Add("SELECT argMax(command, (length(mutation_id), mutation_id)) FROM system.mutations "+
		"WHERE table = 'events' AND command LIKE '%by_text%' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&lastMutation); err != nil {
		return fmt.Errorf("read whether the text index was built: %w", err)
	}
	if kind != "" && (!m.cfg.SearchIndex || kind != textIndexKind) {
		for _, statement := range m.noSearchIndex() {
			if err := m.exec(ctx, statement); err != nil {
				return err
			}
		}
		kind = ""
	}
	if !m.cfg.SearchIndex || kind != "" && strings.Contains(lastMutation, "MATERIALIZE") {
		return nil
	}
	for _, statement := range m.searchIndex() {
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
