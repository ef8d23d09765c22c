package write

import (
	"cmp"
	"time"
)

// WriterConfig says where ClickHouse is and when the writer flushes.
type WriterConfig struct {
	// URL is the address of ClickHouse, or the comma-separated addresses of its shards in their order; see ch.ParseURLs
	// for the forms. It may hold a password and is never logged.
	URL string
	// FlushRows is the number of buffered rows, of all tables together, that starts a flush; 0 = 60,000. A third of them
	// starts one for 10 s after a reader has asked for a flush.
	FlushRows int
	// FlushBytes is the size of the buffered records that starts a flush, or a third of it, likewise; 0 = 24 MiB.
	FlushBytes int
	// FlushEvery is the longest time a row waits for a flush that no reader asks for; 0 = 10 s. From 5,000 rows on it is
	// at most 2.5 s, at most 1 s while readers ask, and at least 5 s while the batch has rows of more than 8 days or
	// flushes are throttled.
	FlushEvery time.Duration
	// PollEvery is the shortest pause between two polls while no reader waits; it lets records gather in Kafka. It
	// doubles up to 32 times that while few records come. 0 = 20 ms.
	PollEvery time.Duration
	// InsertTimeout bounds one insert. An insert that times out is repeated, which changes nothing if it had succeeded.
	// 0 = 1 min.
	InsertTimeout time.Duration
	// ThrottleParts is the number of parts in one partition of a table from which on the writer throttles its flushes,
	// see throttle.go. ClickHouse itself slows inserts down from 1,000 parts on and rejects them from 3,000 on. 0 =
	// 300.
	ThrottleParts int
	// PartsInterval is how often the parts are counted, with a jitter of 0.5 to 1.5 times that; 0 = 15 s.
	PartsInterval time.Duration
	// Drain is how long a stop waits for the last flush and commit; 0 = 5 s.
	Drain time.Duration
}

func (c WriterConfig) withDefaults() WriterConfig {
	c.FlushRows = cmp.Or(c.FlushRows, 60_000)
	c.FlushBytes = cmp.Or(c.FlushBytes, 24<<20)
	c.FlushEvery = cmp.Or(c.FlushEvery, 10*time.Second)
	c.PollEvery = cmp.Or(c.PollEvery, 20*time.Millisecond)
	c.InsertTimeout = cmp.Or(c.InsertTimeout, time.Minute)
	c.ThrottleParts = cmp.Or(c.ThrottleParts, 300)
	c.PartsInterval = cmp.Or(c.PartsInterval, 15*time.Second)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	return c
}
