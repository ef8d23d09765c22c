//go:build !faults

package crash

import (
	"testing"
	"time"
)

// A release has no crash points and the system's clock, whatever its environment says.
func TestReleaseHasNoFaults(t *testing.T) {
	t.Setenv("RELAY_FAULT_CRASH", "point")
	t.Setenv("RELAY_FAULT_CLOCK", "-2h")
	At("point")
	if Built || time.Since(Clock()()) > time.Hour {
		t.Error("faults are built into this binary")
	}
}
