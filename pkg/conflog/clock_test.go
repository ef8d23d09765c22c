package conflog

import (
	"github.com/eventrelay/relay/test/is"
	"testing"
	"time"
)

func TestClockSkew(t *testing.T) {
	base := time.Unix(1_800_000_000, 0)
	f := func(sent, appended, received int, want time.Duration) {
		t.Helper()
		at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
		is.Equal(t, clockSkew(at(sent), at(appended), at(received)), want, "skew")
	}
	f(10, 10, 10, 0)
	f(10, 11, 12, 0)
	f(10, 5, 12, -5*time.Second)
	f(10, 40, 12, 28*time.Second)
}

// A clock that is less than 2 s off is not corrected. One that is farther off is corrected: it never runs ahead of the
// broker's, and stays behind by at most the latency of a heartbeat.
func TestClockCorrection(t *testing.T) {
	base := time.Unix(1_800_000_000, 0)
	const latency = 300 * time.Millisecond // latency of a heartbeat, one way
	for _, off := range []time.Duration{
		-time.Hour, -3 * time.Second, -time.Second, 0, time.Second, 3 * time.Second, time.Hour} {
		sent, received := base.Add(off), base.Add(off+2*latency)
		appended := base.Add(latency)
		b := newClock(time.Now)
		slow := b.nextCorrection(clockSkew(sent, appended, received), appended, received.Add(latency)) // a slower heartbeat
		c := b.nextCorrection(clockSkew(sent, appended, received), appended, received)
		if later := b.nextCorrection(clockSkew(sent, appended, received), appended, received.Add(latency)); later != c ||
			off.Abs() > maxTrustedSkew &&
				slow != c-latency {
			t.Errorf("off by %v: corrected by %v after a slow heartbeat, %v after a fast one, %v after another slow one", off,
				slow, c, later)
		}
		switch behind := -(off + c); {
		case off.Abs() <= maxTrustedSkew && c != 0:
			t.Errorf("a clock that is off by %v was corrected by %v", off, c)
		case off.Abs() > maxTrustedSkew && behind != latency:
			t.Errorf("a clock that was off by %v is %v behind the broker's, want %v", off, behind, latency)
		}
	}
}
