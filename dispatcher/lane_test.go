package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// pauses is a group that remembers what is paused.
type pauses map[stream.Partition]bool

func (p pauses) Pause(ids ...stream.Partition) {
	for _, id := range ids {
		p[id] = true
	}
}

func (p pauses) Resume(ids ...stream.Partition) {
	for _, id := range ids {
		delete(p, id)
	}
}

func testPartition(t testing.TB, topic string, delay time.Duration) (*partition, pauses) {
	t.Helper()
	group := pauses{}
	p, err := newPartition(stream.Partition{Topic: topic}, delay, group, func() {}, stream.Mark{Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	return p, group
}

// laneTest drives lanes by hand: workers are counted, not run.
type laneTest struct {
	*lanes
	now     time.Time
	started map[*lane]int
	part    *partition
	group   pauses
}

func newLaneTest(t testing.TB, maxJobs int) *laneTest {
	t.Helper()
	lt := &laneTest{now: time.UnixMilli(1_800_000_000_000), started: map[*lane]int{}}
	lt.lanes = newLanes(Config{MaxInFlight: maxJobs, MaxInFlightBytes: 1 << 30}, func() time.Time { return lt.now }, func() {})
	lt.start = func(l *lane) { lt.started[l]++ }
	lt.part, lt.group = testPartition(t, stream.Events, 0)
	return lt
}

func (lt *laneTest) job(dest, run string) *job {
	return &job{slot: &slot{part: lt.part, left: 1}, work: &event.Work{Dest: dest, Run: run}, size: 1000}
}

func (lt *laneTest) fill(dest string, n int) (admitted int) {
	for range n {
		if lt.admit(lt.job(dest, "")) {
			admitted++
		}
	}
	return admitted
}

// A stuck lane takes its queue and no more, and pauses nobody.
func TestStuckLaneParks(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("stuck", 1)
	lt.now = lt.now.Add(time.Second)
	if n := lt.fill("stuck", 5000); n != laneQueue-1 {
		t.Errorf("%d were admitted, want %d", n, laneQueue-1)
	}
	if len(lt.group) != 0 {
		t.Error("a stuck lane paused its partition")
	}
	l := lt.byDest["stuck"]
	if n := lt.started[l]; n != firstLimit {
		t.Errorf("%d workers before max_in_flight is known", n)
	}
	lt.setLimit(l, 64)
	if n := lt.started[l]; n != 64 || l.running != 64 {
		t.Errorf("%d workers, want 64", n)
	}
}

// A lane that is full because it was idle a moment ago pauses the partition; when it does move the
// partition goes on at half of the queue, when it does not, after the window.
func TestBusyLanePausesThePartition(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	if n := lt.fill("busy", laneQueue+100); n != laneQueue+100 || len(lt.group) != 1 {
		t.Fatalf("%d admitted, %d partitions paused", n, len(lt.group))
	}
	l := lt.byDest["busy"]
	var j *job // of the one worker that works
	work := func(n int) {
		for range n {
			j = lt.next(l, j)
		}
	}
	lt.now = lt.now.Add(100 * time.Millisecond)
	work(400)
	if len(lt.group) != 1 || !lt.recheck() {
		t.Fatal("the partition went on too early")
	}
	work(250)
	if len(lt.group) != 0 || lt.recheck() {
		t.Fatal("the partition is still paused")
	}

	// Busy for a while, and full again: it counts how fast it was.
	lt.now = lt.now.Add(movingWindow)
	lt.fill("busy", laneQueue)
	if len(lt.group) != 1 {
		t.Fatal("a moving lane parks")
	}
	lt.now = lt.now.Add(2 * movingWindow)
	if lt.recheck() || len(lt.group) != 0 {
		t.Fatal("a lane that stopped moving still holds its partition")
	}
	if lt.admit(lt.job("busy", "")) {
		t.Fatal("a lane that stopped moving takes more")
	}
}

// A lane that is full time and again makes its neighbours wait for a second, then for a tenth of the
// time; one that has the partition for itself may make it wait as long as it moves.
func TestStallsAreBounded(t *testing.T) {
	f := func(neighbours bool, most, least time.Duration) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("busy", soleStreak)
		l := lt.byDest["busy"]
		var paused time.Duration
		var j *job
		for range 3000 { // half a minute, at 5,000 a second in and out
			if len(lt.group) > 0 {
				paused += 10 * time.Millisecond
			} else {
				for range 100 {
					lt.admit(lt.job("busy", ""))
				}
				if neighbours {
					lt.admit(lt.job("other", ""))
				}
			}
			for range 50 {
				j = lt.next(l, j)
			}
			lt.recheck()
			lt.now = lt.now.Add(10 * time.Millisecond)
		}
		if paused > most || paused < least {
			t.Errorf("neighbours %v: paused for %v of 30 s, want %v to %v", neighbours, paused, least, most)
		}
	}
	f(true, 5*time.Second, 2*time.Second)
	f(false, 30*time.Second, 10*time.Second)
}

// However many lanes are stuck, what they leave is enough for the others.
func TestStuckLanesLeaveRoom(t *testing.T) {
	const maxJobs = 8192
	lt := newLaneTest(t, maxJobs)
	for range 100 {
		for i := range 500 {
			lt.fill(fmt.Sprint("stuck", i), 1)
			for len(lt.group) > 0 { // the intake waits
				lt.now = lt.now.Add(movingWindow)
				lt.recheck()
			}
			if lt.full() {
				jobs, _ := lt.held()
				t.Fatalf("%d jobs are held", jobs)
			}
		}
	}
	for range 2 {
		if !lt.admit(lt.job("good", "")) {
			t.Error("no room is left for a good lane")
		}
	}
}

func TestLaneBytesAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxBytes = 10_000
	lt.fill("a", 1)
	lt.now = lt.now.Add(time.Second)
	if n := lt.fill("a", 100); n != 4 {
		t.Errorf("%d jobs of 1,000 bytes went in beside the first, want 4: half of 10,000", n)
	}
}

func TestLaneLimitChanges(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 10)
	l := lt.byDest["d"]
	lt.setLimit(l, 64)
	if l.running != 10 {
		t.Fatalf("%d workers for ten jobs", l.running)
	}
	lt.setLimit(l, 3)
	kept := 0
	for range 10 {
		if lt.next(l, nil) != nil {
			kept++
		}
	}
	if kept != 3 || l.running != 3 {
		t.Fatalf("%d workers go on, %d are counted, want 3", kept, l.running)
	}
	started := lt.started[l]
	lt.setLimit(l, 1000)
	if n := lt.started[l] - started; n != 7 || l.running != 10 {
		t.Fatalf("%d workers for seven queued jobs, %d run", n, l.running)
	}
}

func TestLiveWorkBeforeReplays(t *testing.T) {
	f := func(limit int, want string) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("d", 1)
		l := lt.byDest["d"]
		lt.next(l, nil)
		lt.setLimit(l, limit)
		for range 3 {
			lt.admit(lt.job("d", "run_1"))
		}
		lt.fill("d", 4)
		got := ""
		for range 7 {
			l.running = 1
			j := lt.next(l, nil)
			if j.work.Run == "" {
				got += "L"
			} else {
				got += "r"
			}
			lt.leave(l, j) // one at a time
		}
		if got != want {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
	f(1, "rLrLrLL")

	// With room for several, one replay flies and the rest gives way.
	lt := newLaneTest(t, 100_000)
	for range 3 {
		lt.admit(lt.job("d", "run_1"))
	}
	lt.fill("d", 4)
	l := lt.byDest["d"]
	lt.setLimit(l, 64)
	var got []string
	for range 7 {
		got = append(got, lt.next(l, nil).work.Run)
	}
	if d := cmp.Diff([]string{"run_1", "", "", "", "", "run_1", "run_1"}, got); d != "" {
		t.Error(d)
	}
}

func TestIdleLanesAreForgotten(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("idle", 1)
	lt.fill("busy", 1)
	l := lt.byDest["idle"]
	j := lt.next(l, nil)
	if lt.next(l, j) != nil {
		t.Fatal("work out of nothing")
	}
	lt.now = lt.now.Add(2 * idleLane)
	lt.sweep()
	if lt.byDest["idle"] != nil || lt.byDest["busy"] == nil {
		t.Errorf("lanes: %v", lt.byDest)
	}
}

// A partition rests when too much of it is undone, and goes on at half of it.
func TestPartitionPausesWhenTooMuchIsUndone(t *testing.T) {
	p, group := testPartition(t, stream.Events, 0)
	var slots []*slot
	for o := range int64(maxUndone) {
		if len(group) != 0 {
			t.Fatalf("paused at %d", o)
		}
		slots = append(slots, p.add(o, 1))
	}
	if len(group) != 1 {
		t.Fatal("not paused")
	}
	for i, s := range slots {
		s.done()
		if paused := len(group) == 1; paused != (i+1 <= maxUndone/2) {
			t.Fatalf("paused %v after %d were done", paused, i+1)
		}
	}
}

func TestTierPausesAtItsShare(t *testing.T) {
	p, group := testPartition(t, "retry.1h", time.Hour)
	p.setShare(100 << 10)
	now := time.UnixMilli(1_800_000_000_000)
	wait := func(o int64, size int) {
		p.wait(&job{slot: p.add(o, 1), size: size, ready: now.Add(time.Duration(o) * time.Second)})
	}
	for o := range int64(10) {
		wait(o, 10<<10)
	}
	if len(group) != 1 {
		t.Fatal("not paused at its share of the bytes")
	}
	jobs, next := p.ripe(now.Add(4*time.Second), ripeBatch)
	if len(jobs) != 5 || len(group) != 1 || !next.Equal(now.Add(5*time.Second)) {
		t.Fatalf("%d ripe, next %v, paused %v", len(jobs), next, len(group) == 1)
	}
	if jobs, _ = p.ripe(now.Add(5*time.Second), ripeBatch); len(jobs) != 1 || len(group) != 0 {
		t.Fatalf("%d ripe, paused %v", len(jobs), len(group) == 1)
	}
	for o := int64(10); o < 10+maxWaiting; o++ {
		wait(o, 1)
	}
	if len(group) != 1 {
		t.Fatal("not paused at the number of records")
	}
	p.stop()
	if len(group) != 0 {
		t.Fatal("the client keeps a pause beyond the assignment")
	}
}

// What begins before a stop is waited for, nothing begins after it, and nothing is committed from a
// record that was not done.
func TestStoppedPartition(t *testing.T) {
	p, _ := testPartition(t, stream.Events, 0)
	s0, s1 := p.add(0, 1), p.add(1, 1)
	for range 2 {
		if !p.begin() {
			t.Fatal("nothing begins")
		}
	}
	p.stop()
	if p.begin() || p.add(2, 1) != nil {
		t.Fatal("something begins after the stop")
	}
	s0.done()
	p.end()
	select {
	case <-p.drained:
		t.Fatal("drained with a job in flight")
	default:
	}
	if mark, _, ok := p.take(); !ok || mark.Offset != 1 {
		t.Fatalf("mark %+v", mark)
	}
	s1.done()
	p.end()
	<-p.drained
}

func TestQueue(t *testing.T) {
	var q queue[int]
	next, want := 0, 0
	for round := range 3000 {
		for range round % 7 {
			q.push(next)
			next++
		}
		for range round % 5 {
			if v, ok := q.pop(); ok {
				if v != want {
					t.Fatalf("got %d, want %d", v, want)
				}
				want++
			}
		}
	}
	for q.len() > 0 {
		if v, _ := q.pop(); v != want {
			t.Fatalf("got %d, want %d", v, want)
		}
		want++
	}
	if _, ok := q.pop(); ok || want != next || len(q.items) > 1024 {
		t.Fatalf("%d in, %d out, %d kept", next, want, len(q.items))
	}
}
