//go:build faults

package dispatcher

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

const faultsBuilt = true

// faults kills the process at a named point, for tests: RELAY_FAULT_CRASH=<point>[:n] kills it when the point is
// passed for the nth time (1 unless given).
type faults struct {
	point string
	left  atomic.Int64
}

func newFaults() *faults {
	point, n, _ := strings.Cut(os.Getenv("RELAY_FAULT_CRASH"), ":")
	f := &faults{point: point}
	times, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		times = 1
	}
	f.left.Store(times)
	return f
}

// crashAt kills the process (SIGKILL) if this is the point: no deferred call, no flush, no LeaveGroup.
func (f *faults) crashAt(point string) {
	if point == "" || point != f.point || f.left.Add(-1) != 0 {
		return
	}
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic("BUG: find the own process: " + err.Error())
	}
	if err := p.Kill(); err != nil {
		panic("BUG: kill the own process: " + err.Error())
	}
	select {} // nothing after the point runs
}
