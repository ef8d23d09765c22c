package ingest

import (
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Bounds of what waits for one partition, so that one without a leader fills neither the buffers of the producer (three
// clients with 20,000 records or 256 MiB each, of which events use two) nor the handlers, which all partitions share.
const (
	maxWaiting      = 5_000
	maxWaitingBytes = 64 << 20 // of bodies
	// stallAfter is how long a partition may answer nothing while events wait for it. A change of leader
	// usually takes less; the acceptTimeout that the first ones have to sit out is no wait for everyone.
	stallAfter = 3 * time.Second
)

// Why an event is not even tried. Both are stream.ErrBufferFull: it was never queued, and may be sent again.
var (
	errPartitionStalled = fmt.Errorf("partition answers nothing: %w", stream.ErrBufferFull)
	errPartitionFull    = fmt.Errorf("too many events wait for the partition: %w", stream.ErrBufferFull)
)

// circuit stands before one partition. It opens when the partition stalls and then lets one event
// through at a time, the probe; the first answer of the log closes it. Events that were let in before it
// opened are probes too: the producer goes on trying them.
type partitionBreaker struct {
	mu           sync.Mutex // guards the rest
	waiting      int        // events that the log has not answered for
	bytes        int        // of their bodies
	lastProgress time.Time  // when the log last took one, or when the first of those that wait came
	open         bool
}

// enter lets an event in, or says why not. opened reports that it found the partition stalled just now.
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

// leave notes the log's answer for an event that was let in; closed reports that it ended a stall. A refusal
// ends none and begins none: it may be about this one event.
func (c *partitionBreaker) complete(size int, taken bool, now time.Time) (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.bytes -= size
	if !taken {
		return false
	}
	closed = c.open
	c.lastProgress, c.open = now, false
	return closed
}
