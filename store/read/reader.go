// Package read answers reads from ClickHouse: lists, searches, single events, the audit log, and with its packages
// usage and traffic, findings, and the items of recovery jobs. Events of the last minutes that ClickHouse does not have
// yet come from the log.
//
// Promises: the first page of a list and the read of one event see everything that was acknowledged before the call
// (read-your-writes, see package fence), or say with AsOf that they may not. A read that fails on one shard fails as a
// whole. Reads are bounded by the retention; those that answer one request also by cluster.Config.Timeout and by the
// number of reads that one API key runs at once (cluster.Slots). The long ones, for replays and recovery jobs, bound
// each statement. Values reach ClickHouse as query parameters only.
//
// Begin with reader.go. A list: list.go chooses the table to read and walks back in time, find.go has the
// statements, filters.go the conditions, candidate.go adds statuses. detail.go reads one event. Package cluster asks
// several servers and merges their answers.
package read

import (
	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
	"github.com/eventrelay/relay/store/read/jobs"
	"github.com/eventrelay/relay/store/read/traffic"
)

// Reader answers reads. It starts no goroutines of its own; Close ends its connections.
type Reader struct {
	*cluster.Cluster
	traffic.Counts
	jobs.Jobs
	searchSettings clickhouse.Settings
	unreported     *fence.Unreported
	scans          *scanner
	searches       *cluster.Slots // of each account
	searchesOfKey  *cluster.Slots // of each API key
	// receiptLoads shares one load of an event's receipts between callers while the writer is behind.
	receiptLoads singleflight.Group
}

// NewReader checks the configuration. The connections are made by the first read.
func NewReader(cfg cluster.Config, deps cluster.Deps) (*Reader, error) {
	c, err := cluster.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	return &Reader{
		Cluster: c, Counts: traffic.Counts{Cluster: c}, Jobs: jobs.Jobs{Cluster: c},
		searchSettings: searchSettings(c.Config), scans: newScanner(c.Topic),
		unreported:    fence.NewUnreported(c.Topic, c.Config.FenceWait),
		searches:      cluster.NewSlots(maxSearches, searchWait, "searches of the account"),
		searchesOfKey: cluster.NewSlots(1, searchWait, "search of the API key"),
	}, nil
}
