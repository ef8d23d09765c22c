//go:build !faults

package node

import "time"

// clock is the one clock of the process, passed to everything that asks for the time.
func clock() func() time.Time { return time.Now }
