package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
)

const (
	// damageTimeout bounds the search for damage.
	damageTimeout = 10 * time.Second
	// comparedEvents bounds the stored events of a partition that are looked for, comparedBytes what is read of the log.
	comparedEvents, comparedBytes = 20, 16 << 20
	// checkedParts and checkedBytes bound the parts that ClickHouse reads and compares with their checksums.
	checkedParts, checkedBytes = 8, 64 << 20
	// accessDenied is the code of ClickHouse for a statement that its user may not run.
	accessDenied = 497
)

// damageCodes are the codes of CANNOT_READ_ALL_DATA, CHECKSUM_DOESNT_MATCH, CORRUPTED_DATA and CANNOT_DECOMPRESS.
var damageCodes = []int32{33, 40, 246, 271}

// Damage looks for damage of the store, within bounds: parts that ClickHouse has put aside, reads that met a wrong
// checksum, some parts whose files do not have their checksums, and events that were stored and are not there. What the
// user of ClickHouse may not read is left out. It returns a sentence for each.
func (r *Reader) Damage(ctx context.Context) (found []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, damageTimeout)
	defer cancel()
	add := func(text string, more error) {
		var refused *clickhouse.Exception
		switch {
		case errors.As(more, &refused) && refused.Code == accessDenied:
		case more != nil:
			err = errors.Join(err, more)
		case text != "":
			found = append(found, text)
		}
	}
	add(r.damagedReads(ctx))
	add(r.detachedParts(ctx))
	add(r.wrongChecksums(ctx))
	add(r.missingEvents(ctx))
	return found, err
}

func (r *Reader) damagedReads(ctx context.Context) (string, error) {
	var n uint64
	q := new(ch.Query).Add("SELECT sum(value) FROM system.errors WHERE name IN ('CHECKSUM_DOESNT_MATCH', " +
		"'CANNOT_DECOMPRESS', 'CORRUPTED_DATA', 'NO_FILE_IN_DATA_PART')")
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var of uint64
		err := rows.Scan(&of)
		n += of
		return err
	})
	if n == 0 {
		return "", err
	}
	return fmt.Sprintf("ClickHouse met damaged data %d times since its start", n), err
}

func (r *Reader) detachedParts(ctx context.Context) (string, error) {
	var names []string
	q := new(ch.Query).Add("SELECT table || '/' || name FROM system.detached_parts WHERE database = currentDatabase() " +
		"AND startsWith(coalesce(reason, ''), 'broken') ORDER BY 1 LIMIT 10")
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	if len(names) == 0 {
		return "", err
	}
	return "ClickHouse has put damaged parts aside: " + strings.Join(names, ", "), err
}

// wrongChecksums reads some parts of the table with bodies.
func (r *Reader) wrongChecksums(ctx context.Context) (string, error) {
	var parts []string
	left := uint64(checkedBytes)
	q := new(ch.Query).Add("SELECT name, bytes_on_disk FROM system.parts WHERE active AND database = currentDatabase() "+
		"AND table = 'events' ORDER BY rand() LIMIT ", checkedParts)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var name string
		var size uint64
		err := rows.Scan(&name, &size)
		if err == nil && size <= left {
			left -= size
			parts = append(parts, name)
		}
		return err
	})
	var damaged []string
	for _, name := range parts {
		if err != nil {
			break
		}
		// A read of all columns compares each block with its checksum.
		q := new(ch.Query).Add("SELECT sum(ignore(*)) FROM events WHERE _part = ", name)
		if err = r.Each(ctx, q, func(driver.Rows) error { return nil }); isDamage(err) {
			damaged, err = append(damaged, name), nil
		}
	}
	if len(damaged) == 0 {
		return "", err
	}
	return "parts of the table events do not have their checksums: " + strings.Join(damaged, ", "), err
}

// isDamage reports whether a read has met data that is not what was written.
func isDamage(err error) bool {
	var met *clickhouse.Exception
	return errors.As(err, &met) && slices.Contains(damageCodes, met.Code)
}

// missingEvents looks for the newest events of each partition that the writer has stored.
func (r *Reader) missingEvents(ctx context.Context) (string, error) {
	stored, err := r.newestStored(ctx)
	if err != nil || len(stored) == 0 {
		return "", err
	}
	slices.SortFunc(stored, func(a, b id.ID) int { return b.Compare(a) })
	there := map[id.ID]bool{}
	q := ch.WhereIDs(new(ch.Query).Add("SELECT id FROM events WHERE account != ''"), stored)
	err = r.Each(ctx, q, func(rows driver.Rows) error {
		var text id.ID
		err := rows.Scan(&text)
		there[text] = true
		return err
	})
	missing := 0
	for _, d := range stored {
		if !there[d] {
			missing++
		}
	}
	if err != nil || missing == 0 {
		return "", err
	}
	return fmt.Sprintf("%d of the last %d events that were stored are missing", missing, len(stored)), nil
}

// newestStored returns the newest events in the log that the writer has committed.
func (r *Reader) newestStored(ctx context.Context) (found []id.ID, err error) {
	committed, err := r.Topic.Committed(ctx, stream.StoreGroup, stream.Events)
	if err != nil {
		return nil, err
	}
	starts, err := r.Topic.Starts(ctx, stream.Events)
	if err != nil {
		return nil, err
	}
	var ranges []stream.Range
	for p, end := range committed {
		if from := max(starts[p], end-comparedEvents); from < end {
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: end})
		}
	}
	left := comparedBytes
	err = r.Topic.ReadRanges(ctx, ranges, func(_ stream.Partition, records []*stream.Record) error {
		for _, record := range records {
			if left -= len(record.Value); left < 0 {
				return stream.ErrStop
			}
			e, err := event.Decode(record)
			if err == nil && !e.Source.IsUse() && e.ReceivedAt().After(r.Oldest()) { // others are not in the table
				found = append(found, e.ID)
			}
		}
		return nil
	})
	return found, err
}
