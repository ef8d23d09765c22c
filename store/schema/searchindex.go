package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/eventrelay/relay/store/internal/ch"
)

// The text index is a filter for each granule of events, in which the letters of its texts stand by fours. It says of a
// granule that it has no event with a text, or nothing; the conditions of a search stay the same, so that what it finds
// does not depend on the index, on how much of it has been built, or on whether there is one.
//
// Its letters are those of all that a text is looked for in, in lower case. Bytes that are no UTF-8 are replaced, or
// the index would take the bytes behind them for a part of their letter. It is put together without any constant, for
// indexHint does not know an expression with one again: what would end a body is left out, and 19 letters of time stand
// before the id, so that the letters of base32 begin where those of an id do, but for the first.

const (
	textIndex = "by_text"
	// textIndexKind has grams of 4 letters, a filter of 64 KB, and one hash: a granule has hundreds of thousands of grams,
	// and a text that is worth looking for has several.
	textIndexKind = "ngrambf_v1(4, 65536, 1, 0)"
	// Indexed is the text that the index is about.
	IndexedText ch.SQL = "toValidUTF8(lower(concat(body, headers, base32Encode(concat(toString(toDateTime(ts)), id)))))"
	// inBackground lets a change of all parts go on by itself: the embedded engine would wait for it, for as long as it
	// takes and for ever while merges are stopped.
	inBackground = " SETTINGS mutations_sync = 0"
)

// searchIndex renders what adds the text index and builds it for the rows that are there, in the background.
func (d target) searchIndex() []string {
	return []string{
		d.alterEvents("ADD INDEX IF NOT EXISTS " + textIndex + " " + string(IndexedText) +
			" TYPE " + textIndexKind + " GRANULARITY 1"),
		d.alterEvents("MATERIALIZE INDEX " + textIndex + inBackground),
	}
}

func (d target) noSearchIndex() string {
	return d.alterEvents("DROP INDEX IF EXISTS " + textIndex + inBackground)
}

func (d target) alterEvents(change string) string {
	on := ""
	if d.cluster != "" {
		on = " ON CLUSTER '" + d.cluster + "'"
	}
	return d.fill("ALTER TABLE {db}.events" + on + " " + change)
}

// setSearchIndex adds the text index, or takes it away, as the configuration says. It waits for neither: rows are
// searched without it where it is not built yet.
func (m migration) setSearchIndex(ctx context.Context) error {
	var kind, last string
	q := new(ch.Query).Add("SELECT any(type_full) FROM system.data_skipping_indices "+
		"WHERE table = 'events' AND name = 'by_text' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&kind); err != nil {
		return fmt.Errorf("read whether there is a text index: %w", err)
	}
	// The newest change of the index: a run may have been broken off between adding and building it.
	q = new(ch.Query).Add("SELECT argMax(command, (length(mutation_id), mutation_id)) FROM system.mutations "+
		"WHERE table = 'events' AND command LIKE '%by_text%' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&last); err != nil {
		return fmt.Errorf("read whether the text index was built: %w", err)
	}
	if kind != "" && (!m.cfg.SearchIndex || kind != textIndexKind) {
		if err := m.exec(ctx, m.noSearchIndex()); err != nil {
			return err
		}
		kind = ""
	}
	if !m.cfg.SearchIndex || kind != "" && strings.Contains(last, "MATERIALIZE") {
		return nil
	}
	for _, statement := range m.searchIndex() {
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
