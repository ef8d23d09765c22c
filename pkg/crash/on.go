//go:build faults

package crash

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Built says whether this binary has crash points.
const Built = true

// chosen returns the point of the environment, and how often it is passed until the process is killed.
var chosen = sync.OnceValues(func() (string, *atomic.Int64) {
	point, n, _ := strings.Cut(os.Getenv("RELAY_FAULT_CRASH"), ":")
	left := &atomic.Int64{}
	times, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		times = 1
	}
	left.Store(times)
	return point, left
})

// At kills the process (SIGKILL) if this is the point: no deferred call, no flush.
func At(point string) {
	if at, left := chosen(); point == "" || point != at || left.Add(-1) != 0 {
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

// Clock returns the clock that the node passes to its components: RELAY_FAULT_CLOCK moves it, e.g. by -1h. If it names
// a file, that has the duration, and may change.
func Clock() func() time.Time {
	setting := os.Getenv("RELAY_FAULT_CLOCK")
	offset, err := time.ParseDuration(setting)
	switch {
	case err == nil:
		return func() time.Time { return time.Now().Add(offset) }
	case setting == "":
		return time.Now
	}
	var last atomic.Int64 // of a whole file
	return func() time.Time {
		text, err := os.ReadFile(setting)
		if offset, parseErr := time.ParseDuration(string(text)); err == nil && parseErr == nil {
			last.Store(int64(offset))
		}
		return time.Now().Add(time.Duration(last.Load()))
	}
}
