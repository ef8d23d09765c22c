package kit

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime returns the CPU time of this process, embedded engines included. A busy machine changes it less than the time
// that passes.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
