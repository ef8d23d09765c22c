package limit

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Hour
	f := func(open bool) {
		t.Helper()
		if b.isOpen() != open {
			t.Fatalf("open is %v", b.isOpen())
		}
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
