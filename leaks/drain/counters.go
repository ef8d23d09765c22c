package drain

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// reportInterval is the time between two reports of what drains received. A person who sets a drain up sees its first
	// line within 5 s.
	reportInterval = 2 * time.Second
	// lastReportTimeout bounds the wait for the last reports when the process stops.
	lastReportTimeout = 5 * time.Second
)

// counted is what one request adds to the counters of its drain.
type counted struct {
	requests, lines, bytes, hits, rejected uint64
	platform, lastError                    string
}

// counters counts what drains receive, by minute, until the log has acknowledged it.
type counters struct {
	cfg      Config
	producer Producer
	boot     [16]byte

	mu      sync.Mutex // guards what follows
	version uint64     // of the last report
	minutes map[minuteKey]*minute
}

type minuteKey struct {
	drain string
	start time.Time
}

// minute holds the counters of a drain and minute, and whether the log has them.
type minute struct {
	finding.Counts
	changed bool // since the last report
	waiting int  // reports that are not acknowledged
}

func newCounters(cfg Config, producer Producer) *counters {
	c := &counters{cfg: cfg, producer: producer, minutes: map[minuteKey]*minute{}}
	rand.Read(c.boot[:]) // never fails: crypto/rand ends the process instead
	return c
}

// add counts a request of a drain.
func (c *counters) add(to *config.Drain, at time.Time, x counted) {
	key := minuteKey{to.ID, at.UTC().Truncate(time.Minute)}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.minutes[key]
	if m == nil {
		m = &minute{Counts: finding.Counts{
			Account: to.Account, Sender: to.ID, Minute: key.start, Node: c.cfg.Node, Boot: c.boot,
		}}
		c.minutes[key] = m
	}
	m.Requests += x.requests
	m.Lines += x.lines
	m.Bytes += x.bytes
	m.Hits += x.hits
	m.Rejected += x.rejected
	m.LastAt, m.Platform, m.changed = at, x.platform, true
	m.LastError = x.lastError // empty after a request that was accepted
}

// report produces the counters that have changed, and forgets those of earlier minutes that the log has.
func (c *counters) report(now time.Time) {
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
		records = append(records, record{m, &stream.Record{Key: []byte(key.drain), Value: m.Encode()}})
	}
	c.mu.Unlock()
	for _, x := range records {
		partition := finding.PartitionOf(string(x.r.Key), c.cfg.Partitions)
		c.producer.ProduceUnordered(stream.Findings, partition, x.r, func(_ *stream.Record, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			x.m.waiting--
			x.m.changed = x.m.changed || err != nil // the next report has it again
		})
	}
}

// isReported reports whether the log has acknowledged everything.
func (c *counters) isReported() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.minutes {
		if m.changed || m.waiting > 0 {
			return false
		}
	}
	return true
}

// Run reports what drains received, every two seconds, and once more when ctx ends.
func (d *Drain) Run(ctx context.Context) error {
	for wait.For(ctx, reportInterval) == nil {
		d.counters.report(d.deps.Now())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReportTimeout)
	defer cancel()
	for {
		d.counters.report(d.deps.Now())
		if wait.For(last, reportInterval/100) != nil || d.counters.isReported() {
			return nil
		}
	}
}
