//go:build !faults

package dispatcher

import (
	"testing"
	"unsafe"
)

// A release has no crash points, whatever its environment says.
func TestReleaseHasNoFaults(t *testing.T) {
	t.Setenv("RELAY_FAULT_CRASH", crashSent)
	f := newFaults()
	f.crashAt(crashSent)
	if faultsBuilt || f != nil || unsafe.Sizeof(*f) != 0 {
		t.Error("faults are built into this binary")
	}
}
