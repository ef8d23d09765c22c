//go:build !core

package node

import (
	"testing"
	"time"
)

// A node without Waits waits as long as docs/design and the page of leak scans say.
func TestWaitsAreShortInTestsOnly(t *testing.T) {
	var s Config
	if got := scanBudget(s).Interval; got != 200*time.Millisecond {
		t.Errorf("a leak scan pauses for %v, want 200 ms", got)
	}
	s.Waits = Waits{ScanInterval: 1}
	if interval := scanBudget(s).Interval; interval != 1 {
		t.Errorf("with shorter waits: %v", interval)
	}
}
