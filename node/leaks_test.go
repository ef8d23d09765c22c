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
	if got := s.Limit().PendingTTL; got != 30*time.Second {
		t.Errorf("a claim of a deduplication key lasts %v, want 30 s", got)
	}
	s.Waits = Waits{ScanInterval: 1, PendingClaim: 2}
	if interval, claim := scanBudget(s).Interval, s.Limit().PendingTTL; interval != 1 || claim != 2 {
		t.Errorf("with shorter waits: %v, %v", interval, claim)
	}
}
