package event

import (
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Selection says which deliveries a recovery job is for: those of an endpoint that failed for good, of events received
// in [Since, Until).
type Selection struct {
	Account, Endpoint string
	Since, Until      time.Time
	Groups            []SelectionGroup
}

// SelectionGroup are the deliveries to some destinations.
type SelectionGroup struct {
	Dests      []string
	Except     bool   // all destinations but these
	SkipReason Reason // why the job passes them by; empty: it sends them
}

// SelectionTotals counts the deliveries that a selection found. Items that are sent are numbered from 0, those that are
// not come after them.
type SelectionTotals struct {
	Total, Sendable int
	Destinations    []DestinationTotals
}

// DestinationTotals is the share of one destination.
type DestinationTotals struct {
	ID              string
	Total, Sendable int
}

// RecoveryJob is what decides the states of a job's items beside the outcomes of their deliveries.
type RecoveryJob struct {
	Account, ID string // rec_…
	Selection   string // names its items
	Total       int    // items that it has
	Reserved    int    // items below this number may have been submitted
	// Unsent is why the others never will be; empty while they may.
	UnsentReason Reason
}

// RecoveryCounts is what came of the items that were submitted, one delivery each.
type RecoveryCounts struct {
	Delivered, Failed, Skipped int
	// Unavailable are those of Skipped that were because their destination is disabled or gone.
	Unavailable int
}

// Ended is how many of them nothing more is expected of.
func (c RecoveryCounts) Ended() int { return c.Delivered + c.Failed + c.Skipped }

// Add counts n deliveries by what was said of them last within the job.
func (c *RecoveryCounts) Add(status Status, skipped Reason, n int) {
	switch ItemState(status, skipped) {
	case Delivered:
		c.Delivered += n
	case Failed:
		c.Failed += n
	case Skipped:
		c.Skipped += n
		if skipped == DestinationDisabled || skipped == DestinationDeleted || skipped == EndpointDeleted {
			c.Unavailable += n
		}
	}
}

// ItemState is the state of an item by what was said last of its delivery within the job.
func ItemState(status Status, skipped Reason) Status {
	switch {
	case skipped != "":
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

// RecoveryItem is one delivery of a recovery job.
type RecoveryItem struct {
	Seq         int
	Event       id.ID
	Destination string
	State       Status // pending, queued, delivered, failed or skipped
	SkipReason  Reason
	HasOutcome  bool // something was said of it within its job
	Attempts    int  // HTTP attempts within the job
	Code        int  // HTTP status of the last one
	Error       ErrorCode
	At          time.Time // when its state became true; zero when only the job's own times tell
}

// RecoveryItemPage is one page of the items of a job, the highest number first.
type RecoveryItemPage struct {
	Rows []RecoveryItem
	More bool      // there is another row behind the last one
	AsOf time.Time // as in Page
}

// ItemQueued is the state of an item that is reserved or submitted, and has no result.
const ItemQueued Status = "queued"

// OpenRecoveryItem is an item that nothing was said of within its job, and what is needed to submit it.
type OpenRecoveryItem struct {
	RecoveryItem
	StoredEvent *Event   // nil: it is no longer kept
	Prior       Delivery // how the delivery stands
}
