package leaks

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// A node without shorter waits waits as long as docs/design and the page of leak scans say.
func TestWaitsAreShortInTestsOnly(t *testing.T) {
	is.Equal(t, scanBudget(0).Interval, 200*time.Millisecond, "the pause of a leak scan")
	is.Equal(t, scanBudget(1).Interval, 1, "with shorter waits")
}
