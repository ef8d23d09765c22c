package kit

import (
	"testing"
	"time"
)

// BusyFactor multiplies the limits of Eventually, for machines that run many tests at once. Only a failing test waits
// that long.
const BusyFactor = 5

// Eventually calls ask until it returns "". It pauses for three times as long as ask took, at least 20 ms and at most a
// second, so that expensive questions leave the CPU to what they wait for. After BusyFactor × limit it fails the test
// with the last fault; limit is what an idle machine needs.
func Eventually(t *testing.T, limit time.Duration, ask func() (fault string)) {
	t.Helper()
	for deadline := time.Now().Add(BusyFactor * limit); ; {
		asked := time.Now()
		fault := ask()
		if fault == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(fault)
		}
		<-time.After(min(max(20*time.Millisecond, 3*time.Since(asked)), time.Second))
	}
}

// WaitFor polls until holds returns true, and fails the test with what it waits for after two minutes: no machine is so
// busy, only a failing test waits that long.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}
