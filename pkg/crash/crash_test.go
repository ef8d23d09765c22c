package crash

import (
	"testing"
	"time"
)

// Without Enable there are no crash points and the clock is the system's, whatever the environment says.
func TestFaultsAreEnabled(t *testing.T) {
	t.Setenv("RELAY_FAULT_CRASH", "point")
	t.Setenv("RELAY_FAULT_CLOCK", "-2h")
	At("point")
	if time.Since(Clock()()) > time.Hour {
		t.Error("the clock is moved before Enable")
	}
	Enable()
	defer func() { setting = nil }()
	if time.Since(Clock()()) < time.Hour {
		t.Error("the clock is not moved after Enable")
	}
}
