package stream

import (
	"github.com/eventrelay/relay/test/is"
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
	is.Equal(t, run(2*time.Millisecond), 0, "at 500 a second the rate was high for … of 500")
	if n := run(100 * time.Microsecond); n < 9_800 {
		t.Errorf("at 10,000 a second the rate was high for only %d", n)
	}
	now += time.Minute
	if x.countRecord(now) {
		t.Error("after a minute without records the rate is still high")
	}
	is.Equal(t, run(600*time.Microsecond), 0, "at 1,667 a second the rate was high for")
}
