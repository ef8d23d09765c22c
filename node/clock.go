//go:build !faults

package node

import "time"

// clock returns the clock that the node passes to its components.
func clock() func() time.Time { return time.Now }
