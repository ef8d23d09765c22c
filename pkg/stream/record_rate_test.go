package stream

import (
	"testing"
	"time"
)

func TestRecordRate(t *testing.T) {
	t.Parallel()
	var x recordRate
	now := time.Hour
	// run counts records for a second, the given time apart, and returns for how many the rate was high.
	run := func(apart time.Duration) (busy int) {
		for range time.Second / apart {
			now += apart
			if x.countRecord(now) {
				busy++
			}
		}
		return busy
	}
	if n := run(2 * time.Millisecond); n != 0 {
		t.Errorf("at 500 a second the rate was high for %d of 500", n)
	}
	if n := run(100 * time.Microsecond); n < 9_800 {
		t.Errorf("at 10,000 a second the rate was high for only %d", n)
	}
	now += time.Minute
	if x.countRecord(now) {
		t.Error("after a minute without records the rate is still high")
	}
	if n := run(600 * time.Microsecond); n != 0 {
		t.Errorf("at 1,667 a second the rate was high for %d", n)
	}
}
