package store

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"
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
	_, err := parseURLs(c.URL)
	return errors.Join(err,
		positive("flush rows", c.FlushRows), positive("flush bytes", c.FlushBytes),
		positive("flush interval", c.FlushEvery), positive("poll interval", c.PollEvery), positive("drain time", c.Drain),
		positive("insert timeout", c.InsertTimeout), positive("crowded parts", c.CrowdedParts), positive("look interval", c.LookEvery))
}

// ReaderConfig says where to read and how far back.
type ReaderConfig struct {
	// URL of ClickHouse, as for the writer.
	URL string
	// RetentionDays is how long events can be read; older rows are not shown even while they exist.
	RetentionDays int
	// Connections is the number of statements that this reader runs at once; 0 = 8.
	Connections int
	// FenceWait is how long a read waits for the writer to catch up; 0 = 1.5 s.
	FenceWait time.Duration
	// Timeout bounds one read as a whole, the fence included; 0 = 30 s.
	Timeout time.Duration
	// SearchRows is how many rows a search looks at first; how many then, their time tells. 0 = 10,000.
	SearchRows int
	// SearchBytes bounds the bodies and headers that a search looks at first; 0 = 32 MiB.
	SearchBytes int
	// SearchSoon is after how long a search answers that has found something, SearchBudget one that has not; 0 = 300 ms and 2 s.
	SearchSoon, SearchBudget time.Duration
	// SearchThreads is how many processors of a ClickHouse server one search may take; 0 = half of this machine's.
	SearchThreads int
	// SearchIndex is whether searches ask the text index. It need not be there.
	SearchIndex bool
	// SearchURL is URL for searches: another user of the same databases, whose quotas keep them from the writer. Empty = URL.
	SearchURL string
	// SelectPage is how many candidates one statement judges when a recovery job is prepared; 0 = 50,000.
	SelectPage int
}

func (c ReaderConfig) withDefaults() ReaderConfig {
	if c.Connections == 0 {
		c.Connections = 8
	}
	if c.FenceWait == 0 {
		c.FenceWait = 1500 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.SearchRows == 0 {
		c.SearchRows = firstSearch
	}
	c.SearchSoon = cmp.Or(c.SearchSoon, searchStretch)
	c.SearchBudget = cmp.Or(c.SearchBudget, searchBudget)
	c.SearchBytes = cmp.Or(c.SearchBytes, firstSearchBytes)
	c.SearchThreads = cmp.Or(c.SearchThreads, max(1, runtime.NumCPU()/2))
	c.SearchURL = cmp.Or(c.SearchURL, c.URL)
	if c.SelectPage == 0 {
		c.SelectPage = 50_000
	}
	return c
}

// Validate reports all faults at once.
func (c ReaderConfig) Validate() error {
	shards, err := parseURLs(c.URL)
	search, searchErr := parseURLs(c.SearchURL)
	switch {
	case searchErr != nil:
		searchErr = fmt.Errorf("for searches: %w", searchErr)
	case err == nil && len(search) != len(shards):
		searchErr = fmt.Errorf("store: %d shards to search and %d to read", len(search), len(shards))
	}
	return errors.Join(err, searchErr, positive("search threads", c.SearchThreads),
		positive("retention days", c.RetentionDays), positive("connections", c.Connections),
		positive("fence wait", c.FenceWait), positive("timeout", c.Timeout), positive("select page", c.SelectPage))
}

func positive[T int | time.Duration](name string, v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("store: %s must be positive, not %v", name, v)
}
