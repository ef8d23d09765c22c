package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// A lane that has lived with a clock that was ahead may make a partition wait as any other when the clock
// is set right.
func TestClockSetBackLeavesTheBudget(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.next(l, lt.next(l, nil, result{}), result{kind: succeeded})
	lt.now = lt.now.Add(-time.Hour)
	if n := lt.fill("d", laneQueue+10); n != laneQueue+10 || len(lt.group) != 1 {
		t.Errorf("%d of %d were admitted, %d partitions are paused", n, laneQueue+10, len(lt.group))
	}
}

// A clock that steps forward brings what is due then within seconds, whatever the timer slept for.
func TestClockSetForward(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig(), func(d *Deps) { d.Now, d.IDs = now, id.NewGenerator(now) })
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2, Due: time.Now().Add(29 * time.Minute)})
		time.Sleep(time.Minute)
		ahead.Store(int64(time.Hour))
		time.Sleep(longestSleep + time.Second)
		if n := len(s.all()); n != 1 {
			t.Errorf("%d requests after the clock has stepped over the due time", n)
		}
	})
}
