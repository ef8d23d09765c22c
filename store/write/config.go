package write

import (
	"cmp"
	"errors"
	"time"

	"github.com/eventrelay/relay/store/internal/ch"
)

// WriterConfig says when the writer flushes. A zero value takes the default of DefaultWriterConfig.
type WriterConfig struct {
	// URL of ClickHouse, or of its shards in their order, by commas; see parseURL for its forms. It may hold a
	// password and is never logged.
	URL string
	// FlushRows is the number of buffered rows, of all tables together, that makes a flush.
	FlushRows int
	// FlushBytes is the size of the buffered records that makes a flush.
	FlushBytes int
	// FlushEvery is the longest time a row waits, unless the batch is spread over many days.
	FlushEvery time.Duration
	// FlushSmall, when set, is FlushEvery while less than a thousand rows wait: readers on other nodes
	// cannot kick this writer. 0 = off.
	FlushSmall time.Duration
	// PollEvery is how long records gather in the log between two polls while no reader waits for them.
	PollEvery time.Duration
	// InsertTimeout bounds one insert; one that takes longer is tried again, and changes nothing if it had succeeded.
	InsertTimeout time.Duration
	// CrowdedParts is the number of parts in one partition of a table from which on ClickHouse counts as behind with
	// merging them; see crowd.go. It slows inserts down from 1,000 on, and refuses them from 3,000 on.
	CrowdedParts int
	// LookEvery is how often the parts are counted, halved to doubled at random.
	LookEvery time.Duration
	// Drain is how long a stop waits for the last flush.
	Drain time.Duration
}

// DefaultWriterConfig is everything but the URL.
func DefaultWriterConfig() WriterConfig {
	return WriterConfig{
		FlushRows: 20_000, FlushBytes: 8 << 20, FlushEvery: time.Second, PollEvery: 20 * time.Millisecond, Drain: 5 * time.Second,
		InsertTimeout: time.Minute, CrowdedParts: 300, LookEvery: 15 * time.Second,
	}
}

// withDefaults fills in what is zero.
func (c WriterConfig) withDefaults() WriterConfig {
	d := DefaultWriterConfig()
	if c.FlushRows == 0 {
		c.FlushRows = d.FlushRows
	}
	if c.FlushBytes == 0 {
		c.FlushBytes = d.FlushBytes
	}
	if c.FlushEvery == 0 {
		c.FlushEvery = d.FlushEvery
	}
	if c.PollEvery == 0 {
		c.PollEvery = d.PollEvery
	}
	if c.Drain == 0 {
		c.Drain = d.Drain
	}
	c.InsertTimeout = cmp.Or(c.InsertTimeout, d.InsertTimeout)
	c.CrowdedParts = cmp.Or(c.CrowdedParts, d.CrowdedParts)
	c.LookEvery = cmp.Or(c.LookEvery, d.LookEvery)
	return c
}

// Validate reports all faults at once.
func (c WriterConfig) Validate() error {
	_, err := ch.ParseURLs(c.URL)
	return errors.Join(err,
		ch.Positive("flush rows", c.FlushRows), ch.Positive("flush bytes", c.FlushBytes),
		ch.Positive("flush interval", c.FlushEvery), ch.Positive("poll interval", c.PollEvery), ch.Positive("drain time", c.Drain),
		ch.Positive("insert timeout", c.InsertTimeout), ch.Positive("crowded parts", c.CrowdedParts), ch.Positive("look interval", c.LookEvery))
}
