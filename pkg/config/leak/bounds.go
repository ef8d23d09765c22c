package leak

import (
	"fmt"

	"github.com/eventrelay/relay/pkg/config/entity"
)

// MaxFindings is the maximum number of findings, and MaxOutstandingFindings of those that are neither resolved nor
// ignored.
const (
	MaxFindings            = 100_000
	MaxOutstandingFindings = 20_000
)

// Errors of the bounds.
var (
	// ErrTooManyFindings means that there are MaxFindings findings, or MaxOutstandingFindings of them are outstanding.
	ErrTooManyFindings = fmt.Errorf(
		"the maximum of %d findings, or of %d that are neither resolved nor ignored, is reached", MaxFindings,
		MaxOutstandingFindings)

	ErrTooManyDrains    = entity.TooMany(MaxDrains, "drains")
	ErrTooManyDSNs      = entity.TooMany(MaxDSNs, "DSNs")
	ErrTooManyDomains   = entity.TooMany(MaxDomains, "domains")
	ErrTooManyScans     = entity.TooMany(MaxStoredScans, "scans")
	ErrTooManyTripwires = entity.TooMany(MaxTripwires, "tripwires of a domain")
)
