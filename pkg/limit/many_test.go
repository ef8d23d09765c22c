package limit

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// Several tokens are taken together or not at all. More than a bucket holds requires a full one, and the next caller
// waits until the debt is refilled. Over an hour the rate is kept whatever the sizes.
func TestTakeSharedTokens(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := must.Get(New(DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))(t)
	f := func(n int, want time.Duration) {
		t.Helper()
		if got := l.TakeSharedTokens("bytes", "ep_1", n, 1000); (got - want).Abs() > time.Microsecond {
			t.Errorf("%d tokens: wait %v, want %v", n, got, want)
		}
	}
	f(400, 0)
	f(700, 100*time.Millisecond)
	f(600, 0)
	f(0, 0)
	now = now.Add(time.Second)
	f(5000, 0) // the bucket was full: a debt of 4,000
	f(1, 4001*time.Millisecond)
	now = now.Add(4500 * time.Millisecond)
	f(5000, 500*time.Millisecond)
	taken := 0
	for began, i := now, 0; now.Sub(began) < time.Hour; i++ {
		n := 1 + i*7919%3000
		if wait := l.TakeSharedTokens("bytes", "ep_1", n, 1000); wait > 0 {
			now = now.Add(wait)
			continue
		}
		taken += n
	}
	if rate := float64(taken) / 3600; rate < 950 || rate > 1002 {
		t.Errorf("%.0f tokens a second", rate)
	}
}
