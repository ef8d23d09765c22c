//go:build faults

package node

import (
	"os"
	"time"
)

// clock returns the clock of a build for fault tests: RELAY_FAULT_CLOCK moves it, e.g. by -1h.
func clock() func() time.Time {
	offset, err := time.ParseDuration(os.Getenv("RELAY_FAULT_CLOCK"))
	if err != nil {
		return time.Now
	}
	return func() time.Time { return time.Now().Add(offset) }
}
