package dispatcher

import (
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
)

// Pacer holds the rates of destinations.
type Pacer interface {
	// Take asks for one token of key's bucket. 0: it was taken. Otherwise nothing was taken, and the result is
	// the wait until one is likely there. It does no I/O and never fails.
	Take(key string, perSecond float64, burst int) time.Duration
}

// take asks for a token for one attempt and returns the wait for it, 0 when the attempt may be made.
func (d *Dispatcher) take(l *lane.Lane, dest *config.Destination) time.Duration {
	limit := dest.RateLimit
	if limit == nil || d.pacer == nil {
		return 0
	}
	burst := max(limit.Burst, int(limit.PerSecond*lane.SavedTokens.Seconds()))
	wait := d.pacer.Take(dest.ID, limit.PerSecond, burst)
	if wait == 0 {
		d.lanes.Reinforce(l)
	}
	return wait
}
