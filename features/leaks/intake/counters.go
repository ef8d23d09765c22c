package intake

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// ReportInterval is the time between two reports of what senders sent. A person who sets one up sees its first
	// request within 5 s.
	ReportInterval = 2 * time.Second
	// LastReportTimeout bounds the wait for the last reports when the process stops.
	LastReportTimeout = 5 * time.Second
)

// Counted is what one request adds to the counters of its sender.
type Counted struct {
	Requests, Lines, Bytes, Hits, Rejected uint64
	Platform, LastError                    string
}

// Counters counts what senders send, by minute, until the log has acknowledged it.
type Counters struct {
	node       string
	partitions int32 // of the topic findings
	producer   Producer
	boot       [16]byte

	mu      sync.Mutex // guards what follows
	version uint64     // of the last report
	minutes map[minuteKey]*minute
}

type minuteKey struct {
	sender string
	start  time.Time
}

// minute holds the counters of a sender and minute, and whether the log has them.
type minute struct {
	finding.Counts
	changed bool // since the last report
	waiting int  // reports that are not acknowledged
}

// NewCounters returns the counters of one stage on a node. partitions is the number of those of the topic findings.
func NewCounters(node string, partitions int32, producer Producer) *Counters {
	c := &Counters{node: node, partitions: partitions, producer: producer, minutes: map[minuteKey]*minute{}}
	rand.Read(c.boot[:]) // never fails: crypto/rand ends the process instead
	return c
}

// Add counts a request of a sender.
func (c *Counters) Add(account, sender string, at time.Time, x Counted) {
	key := minuteKey{sender, at.UTC().Truncate(time.Minute)}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.minutes[key]
	if m == nil {
		m = &minute{Counts: finding.Counts{
			Account: account, Sender: sender, Minute: key.start, Node: c.node, Boot: c.boot,
		}}
		c.minutes[key] = m
	}
	m.Requests += x.Requests
	m.Lines += x.Lines
	m.Bytes += x.Bytes
	m.Hits += x.Hits
	m.Rejected += x.Rejected
	m.LastAt, m.changed = at, true
	// A refused request often has no platform, and an accepted one no error: the newest known ones stay.
	m.Platform, m.LastError = cmp.Or(x.Platform, m.Platform), cmp.Or(x.LastError, m.LastError)
}

// Report produces the counters that have changed, and forgets those of earlier minutes that the log has.
func (c *Counters) Report(now time.Time) {
	type record struct {
		m *minute
		r *stream.Record
	}
	var records []record
	c.mu.Lock()
	for key, m := range c.minutes {
		if !m.changed {
			if m.waiting == 0 && now.Sub(key.start) > 2*time.Minute {
				delete(c.minutes, key)
			}
			continue
		}
		c.version++
		m.Version, m.changed = c.version, false
		m.waiting++
		records = append(records, record{m, &stream.Record{Key: []byte(key.sender), Value: m.Encode()}})
	}
	c.mu.Unlock()
	for _, x := range records {
		partition := finding.PartitionOf(string(x.r.Key), c.partitions)
		c.producer.ProduceUnordered(stream.Findings, partition, x.r, func(_ *stream.Record, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			x.m.waiting--
			x.m.changed = x.m.changed || err != nil // the next report has it again
		})
	}
}

// isReported reports whether the log has acknowledged everything.
func (c *Counters) isReported() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.minutes {
		if m.changed || m.waiting > 0 {
			return false
		}
	}
	return true
}

// Run reports every two seconds, and once more when ctx ends.
func (c *Counters) Run(ctx context.Context, now func() time.Time) error {
	for wait.For(ctx, ReportInterval) == nil {
		c.Report(now())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastReportTimeout)
	defer cancel()
	for {
		c.Report(now())
		if wait.For(last, ReportInterval/100) != nil || c.isReported() {
			return nil
		}
	}
}
