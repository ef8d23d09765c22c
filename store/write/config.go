package write

import (
	"cmp"
	"time"
)

// WriterConfig says when the writer flushes.
type WriterConfig struct {
	// URL of ClickHouse, or of its shards in their order, by commas; see ch.ParseURL for its forms. It may hold a
	// password and is never logged.
	URL string
	// FlushRows is the number of buffered rows, of all tables together, that makes a flush; 0 = 20,000.
	FlushRows int
	// FlushBytes is the size of the buffered records that makes a flush; 0 = 8 MiB.
	FlushBytes int
	// FlushEvery is the longest time a row waits, unless the batch is spread over many days; 0 = 1 s.
	FlushEvery time.Duration
	// FlushSmall, when set, is FlushEvery while less than a thousand rows wait: readers on other nodes
	// cannot kick this writer. 0 = off.
	FlushSmall time.Duration
	// PollEvery is how long records gather in the log between two polls while no reader waits for them; 0 = 20 ms.
	PollEvery time.Duration
	// InsertTimeout bounds one insert; one that takes longer is tried again, and changes nothing if it had succeeded. 0 =
	// 1 min.
	InsertTimeout time.Duration
	// ThrottleParts is the number of parts in one partition of a table from which on ClickHouse counts as behind with
	// merging them; see crowd.go. It slows inserts down from 1,000 on, and refuses them from 3,000 on. 0 = 300.
	ThrottleParts int
	// PartsInterval is how often the parts are counted, halved to doubled at random; 0 = 15 s.
	PartsInterval time.Duration
	// Drain is how long a stop waits for the last flush; 0 = 5 s.
	Drain time.Duration
}

func (c WriterConfig) withDefaults() WriterConfig {
	c.FlushRows = cmp.Or(c.FlushRows, 20_000)
	c.FlushBytes = cmp.Or(c.FlushBytes, 8<<20)
	c.FlushEvery = cmp.Or(c.FlushEvery, time.Second)
	c.PollEvery = cmp.Or(c.PollEvery, 20*time.Millisecond)
	c.InsertTimeout = cmp.Or(c.InsertTimeout, time.Minute)
	c.ThrottleParts = cmp.Or(c.ThrottleParts, 300)
	c.PartsInterval = cmp.Or(c.PartsInterval, 15*time.Second)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	return c
}
