package kit

import (
	"sync"
	"testing"
	"time"
)

// Busy is how much longer than alone things may take on a machine that does much else: only a test that fails waits so
// long.
const Busy = 5

// Eventually asks again until the answer is empty; otherwise the answer is why the test fails. The limit is for a
// machine that does nothing else.
func Eventually(t *testing.T, limit time.Duration, ask func() (fault string)) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(Busy * limit); ; <-again.C {
		fault := ask()
		if fault == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(fault)
		}
	}
}

// Tail keeps the last 64 KB that were written.
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
