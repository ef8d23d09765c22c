//go:build faults

package crash

import (
	"testing"
	"time"
)

func TestFaultsAreBuiltIn(t *testing.T) {
	t.Setenv("RELAY_FAULT_CLOCK", "-2h")
	if !Built || time.Since(Clock()()) < time.Hour {
		t.Error("the tag faults built nothing")
	}
}
