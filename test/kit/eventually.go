package kit

import (
	"sync"
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

// Tail is an io.Writer that keeps the last 64 KiB written to it.
type Tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (b *Tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if n := len(b.buf) - 64<<10; n > 0 {
		b.buf = b.buf[n:]
	}
	return len(p), nil
}

func (b *Tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
