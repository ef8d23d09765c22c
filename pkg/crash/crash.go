// Package crash injects faults in tests. RELAY_FAULT_CRASH=<point>[:n] kills the process when the named point is passed
// for the nth time, the first unless given: so tests show what a killed process leaves. RELAY_FAULT_CLOCK moves the
// clock.
//
// Both do nothing until Enable is called, which only programs of tests do. A release does not contain Enable, because
// the linker leaves out what nothing calls: e2e.TestReleaseHasNoFaults.
package crash

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// setting returns a setting of the environment by the end of its name; nil unless faults are enabled.
var setting func(name string) string

// Enable makes this process obey the settings. Call it first in a program of tests.
func Enable() {
	setting = func(name string) string { return os.Getenv("RELAY_FAULT_" + name) }
}

// chosen returns the point of the environment, and how often it is passed until the process is killed.
var chosen = sync.OnceValues(func() (string, *atomic.Int64) {
	point, n, _ := strings.Cut(setting("CRASH"), ":")
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
	if setting != nil {
		killAt(point)
	}
}

func killAt(point string) {
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
	if setting == nil || setting("CLOCK") == "" {
		return time.Now
	}
	moved := setting("CLOCK")
	if offset, err := time.ParseDuration(moved); err == nil {
		return func() time.Time { return time.Now().Add(offset) }
	}
	var last atomic.Int64 // of a whole file
	return func() time.Time {
		text, err := os.ReadFile(moved)
		if offset, parseErr := time.ParseDuration(string(text)); err == nil && parseErr == nil {
			last.Store(int64(offset))
		}
		return time.Now().Add(time.Duration(last.Load()))
	}
}
