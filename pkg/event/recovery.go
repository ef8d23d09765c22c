package event

import (
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Selection selects the deliveries of a recovery job: the failed deliveries of an endpoint, of events received in
// [Since, Until).
type Selection struct {
	Account, Endpoint string
	Since, Until      time.Time
	Groups            []SelectionGroup
}

// SelectionGroup is the part of a selection for some destinations.
type SelectionGroup struct {
	Dests      []string
	Except     bool   // all destinations except Dests
	SkipReason Reason // why the job skips these deliveries; empty: it sends them
}

// SelectionTotals counts the items of a selection. The Sendable items are numbered from 0; the skipped ones follow.
type SelectionTotals struct {
	Total, Sendable int
	Destinations    []DestinationTotals
}

// DestinationTotals counts the items of one destination.
type DestinationTotals struct {
	ID              string
	Total, Sendable int
}

// RecoveryJob is the part of a recovery job that determines the states of items without an outcome.
type RecoveryJob struct {
	Account, ID string // rec_…
	Selection   string // names its items
	Total       int    // items that it has
	From        int    // number of the first item that a list has
	Reserved    int    // items below this number may have been submitted
	// UnsentReason is why the remaining items will never be submitted; empty while they may be.
	UnsentReason Reason
}

// RecoveryCounts are the submitted items of a job by result. An item is one delivery.
type RecoveryCounts struct {
	Delivered, Failed, Skipped int
	// Unavailable counts those of Skipped whose destination or endpoint is disabled or deleted.
	Unavailable int
}

// Ended returns the number of items with a final result.
func (c RecoveryCounts) Ended() int { return c.Delivered + c.Failed + c.Skipped }

// Add counts n deliveries with this newest outcome within the job.
func (c *RecoveryCounts) Add(status Status, skipReason Reason, n int) {
	switch ItemState(status, skipReason) {
	case Delivered:
		c.Delivered += n
	case Failed:
		c.Failed += n
	case Skipped:
		c.Skipped += n
		if skipReason == DestinationDisabled || skipReason == DestinationDeleted || skipReason == EndpointDeleted {
			c.Unavailable += n
		}
	}
}

// ItemState returns the state of an item from the newest outcome of its delivery within the job.
func ItemState(status Status, skipReason Reason) Status {
	switch {
	case skipReason != "":
		return Skipped
	case status.Terminal():
		return status
	}
	return ItemQueued
}

// RecoveryFailures are the failed items of one destination.
type RecoveryFailures struct {
	Failed   int
	TopError string // the most frequent error code, or the reason where no request was made
}

// RecoveryItem is one item of a recovery job: one delivery.
type RecoveryItem struct {
	Seq         int
	Event       id.ID
	Destination string
	State       Status // pending, queued, delivered, failed or skipped
	SkipReason  Reason
	HasOutcome  bool // the store has an outcome of its delivery within the job, or the command that submitted it
	Attempts    int  // HTTP attempts within the job
	Code        int  // HTTP status of the last one
	Error       ErrorCode
	Type        string    // of its event; empty if it has none, or the event is not stored any more
	At          time.Time // when it reached its state; zero when the state follows from the job's own times
}

// RecoveryItemPage is one page of the items of a job, the highest number first.
type RecoveryItemPage struct {
	Rows []RecoveryItem
	More bool      // there is at least one more row
	AsOf time.Time // as in Page
}

// ItemQueued is the state of an item that is reserved or submitted and has no result yet.
const ItemQueued Status = "queued"

// OpenRecoveryItem is an item that the store has neither a command nor an outcome of, and the data to submit it.
type OpenRecoveryItem struct {
	RecoveryItem
	StoredEvent *Event   // nil: the event is not stored any more
	Prior       Delivery // the delivery's state before the job
}
