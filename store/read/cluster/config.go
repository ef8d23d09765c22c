package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/eventrelay/relay/store/internal/ch"
)

// Config configures a Cluster. A zero value of a limit stands for the default that its comment names.
type Config struct {
	// URL of ClickHouse, in the form that the writer takes. Its user may write: Pool has its connections.
	URL string
	// ReadURL replaces URL for everything that reads: the same databases with a user that may only read. Empty = URL.
	ReadURL string
	// RetentionDays is how long events can be read. Older rows are hidden even while they exist.
	RetentionDays int
	// Connections is the number of statements that the cluster runs at once on each shard; 0 = 8. Searches have as
	// many connections of their own.
	Connections int
	// FenceWait is how long a read waits for the writer to catch up; 0 = 1.5 s.
	FenceWait time.Duration
	// Timeout bounds one read as a whole, the fence included; 0 = 30 s.
	Timeout time.Duration
	// SearchRows is how many rows the first statement of a search reads; later ones adapt to its duration. 0 = 10,000.
	SearchRows int
	// SearchBytes bounds the bodies and headers that the first statement of a search reads; 0 = 32 MiB.
	SearchBytes int
	// SearchFoundBudget is the time after which a search with hits returns what it has, SearchBudget the time for one
	// without; 0 = 300 ms and 2 s.
	SearchFoundBudget, SearchBudget time.Duration
	// SearchThreads is how many threads one search may use on a ClickHouse server; 0 = half of this machine's CPUs.
	SearchThreads int
	// SearchIndex lets searches use the text index. It is harmless when the table has none.
	SearchIndex bool
	// SearchURL replaces ReadURL for searches: the same databases with another user, whose quotas protect the writer.
	// Empty = ReadURL.
	SearchURL string
	// SelectPage is how many candidates one statement checks during the selection of a recovery job; 0 = 50,000.
	SelectPage int
}

// SearchChunkTime is the time that a search sizes its chunks to take; see Config.SearchFoundBudget.
const SearchChunkTime = 300 * time.Millisecond

func (c Config) withDefaults() Config {
	c.Connections = cmp.Or(c.Connections, 8)
	c.FenceWait = cmp.Or(c.FenceWait, 1500*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.SearchRows = cmp.Or(c.SearchRows, 10_000)
	c.SearchFoundBudget = cmp.Or(c.SearchFoundBudget, SearchChunkTime)
	c.SearchBudget = cmp.Or(c.SearchBudget, 2*time.Second)
	c.SearchBytes = cmp.Or(c.SearchBytes, 32<<20)
	c.SearchThreads = cmp.Or(c.SearchThreads, max(1, runtime.NumCPU()/2))
	c.ReadURL = cmp.Or(c.ReadURL, c.URL)
	c.SearchURL = cmp.Or(c.SearchURL, c.ReadURL)
	c.SelectPage = cmp.Or(c.SelectPage, 50_000)
	return c
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	shards, err := ch.ParseURLs(c.URL)
	for _, other := range []struct{ url, what string }{{c.ReadURL, "for reading"}, {c.SearchURL, "for searches"}} {
		found, otherErr := ch.ParseURLs(other.url)
		switch {
		case otherErr != nil:
			otherErr = fmt.Errorf("%s: %w", other.what, otherErr)
		case len(shards) > 0 && len(found) != len(shards):
			otherErr = fmt.Errorf("store: the URL %s names %d shards, the other URL %d: name the same shards in both",
				other.what, len(found), len(shards))
		}
		err = errors.Join(err, otherErr)
	}
	return errors.Join(err, ch.RequirePositive("search threads", c.SearchThreads),
		ch.RequirePositive("retention days", c.RetentionDays), ch.RequirePositive("connections", c.Connections),
		ch.RequirePositive("fence wait", c.FenceWait), ch.RequirePositive("timeout", c.Timeout),
		ch.RequirePositive("select page", c.SelectPage))
}
