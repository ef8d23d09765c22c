package limit

import (
	"strconv"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// States that Redis did not take are kept, unless they have changed since, and as many as the mirror may hold.
func TestMirroredStatesArePutBack(t *testing.T) {
	old, newer := time.Unix(1, 0), time.Unix(2, 0)
	var m breakerMirror
	m.putBack(map[string]time.Time{"a": old})
	if !m.pending["a"].Equal(old) {
		t.Errorf("pending: %v", m.pending)
	}
	m.pending = map[string]time.Time{"a": newer}
	for i := range maxMirrored - 2 {
		m.pending[strconv.Itoa(i)] = newer
	}
	m.putBack(map[string]time.Time{"a": old, "b": old, "c": old})
	if !m.pending["a"].Equal(newer) || len(m.pending) != maxMirrored {
		t.Errorf("%d states, that of a until %v", len(m.pending), m.pending["a"])
	}
	for n := maxMirrored; n > 0; n -= maxMirrorBatch {
		if got := len(m.takeBatch()); got != min(n, maxMirrorBatch) || len(m.pending) != max(0, n-maxMirrorBatch) {
			t.Fatalf("a batch of %d, %d are pending", got, len(m.pending))
		}
	}
}

func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Hour
	f := func(open bool) {
		t.Helper()
		must.Equal(t, b.isOpen(), open, "open")
	}
	for range 3 { // never three in a row
		b.failed(now)
		b.failed(now)
		b.succeeded()
	}
	f(false)
	for i := range breakAfter {
		if opened := b.failed(now); opened != (i == breakAfter-1) {
			t.Errorf("failure %d: opened is %v", i+1, opened)
		}
	}
	f(true)
	for _, wait := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		wait *= time.Millisecond
		if b.failed(now); b.mayProbe(now + wait - 1) { // an exchange that began earlier does not count
			t.Errorf("a probe is due before %v", wait)
		}
		now += wait
		if !b.mayProbe(now) {
			t.Errorf("no probe is due after %v", wait)
		}
		b.failed(now)
	}
	if !b.close() || b.close() {
		t.Error("close does not report whether it was open")
	}
	f(false)
	b.failed(now)
	b.failed(now)
	f(false)
}
