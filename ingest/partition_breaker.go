package ingest

import (
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Limits of the events that wait for one partition. All partitions share the producer's buffers (three clients with
// 20,000 records or 256 MiB each, of which events use two) and the HTTP handlers; a partition without a leader must not
// fill them.
const (
	maxWaiting      = 5_000
	maxWaitingBytes = 64 << 20 // of bodies
	// stallAfter is how long a partition may acknowledge nothing while events wait for it. A leader election usually
	// takes less. Events that arrive later fail immediately; only the first ones wait for acceptTimeout.
	stallAfter = 3 * time.Second
)

// Errors of an event that is not produced. Both wrap stream.ErrBufferFull: it was not queued and can be sent again.
var (
	errPartitionStalled = fmt.Errorf("partition has stopped acknowledging records: %w", stream.ErrBufferFull)
	errPartitionFull    = fmt.Errorf("too many events wait for the partition: %w", stream.ErrBufferFull)
)

// partitionBreaker is the circuit breaker of one partition. It opens when the partition stalls and then admits one
// event at a time, the probe. The first acknowledgement of the log closes it. Events that were admitted before it
// opened are probes too, because the producer still retries them; while they wait, no other event is admitted.
type partitionBreaker struct {
	mu           sync.Mutex // guards the fields below
	waiting      int        // admitted events that the log has not answered
	bytes        int        // of the bodies of these events
	lastProgress time.Time  // the last acknowledgement, or the admission of an event when none waited
	open         bool
}

// admit admits an event of size bytes or returns errPartitionStalled or errPartitionFull. opened reports that this call
// opened the breaker.
func (c *partitionBreaker) admit(size int, now time.Time) (opened bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waiting == 0:
		c.lastProgress = now
	case c.open:
		return false, errPartitionStalled
	case now.Sub(c.lastProgress) > stallAfter:
		c.open = true
		return true, errPartitionStalled
	case c.waiting >= maxWaiting || c.bytes+size > maxWaitingBytes:
		return false, errPartitionFull
	}
	c.waiting++
	c.bytes += size
	return false, nil
}

// complete records the log's answer for an admitted event; stored tells whether it was acknowledged. closed reports
// that this call closed the breaker. An event that the log rejects changes nothing: the reason may be that event alone.
func (c *partitionBreaker) complete(size int, stored bool, now time.Time) (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.bytes -= size
	if !stored {
		return false
	}
	closed = c.open
	c.lastProgress, c.open = now, false
	return closed
}
