package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// laneFuzz does whatever can happen to lanes, in any order, and keeps count of every job.
type laneFuzz struct {
	*laneTest
	r     *rand.Rand
	t     *testing.T
	ended map[*job]int
	jobs  int
	busy  []*flight // workers with a job
}

type flight struct {
	lane *lane
	job  *job
}

func (f *laneFuzz) end(j *job) {
	f.ended[j]++
	f.free(j)
}

// step does one thing at random.
func (f *laneFuzz) step() {
	switch n := f.r.IntN(100); {
	case n < 40:
		f.offer()
	case n < 60:
		f.begin()
	case n < 90:
		f.finish(f.anyResult())
	case n < 95:
		f.now = f.now.Add(time.Duration(f.r.ExpFloat64() * float64(time.Second)))
		f.rouse()
	case n < 98:
		shed, _ := f.recheck()
		for _, j := range shed {
			f.end(j)
		}
	default:
		f.now = f.now.Add(time.Duration((f.r.Float64() - 0.5) * float64(4*time.Hour))) // the clock is set
		f.sweep()
	}
	if f.r.IntN(2000) == 0 {
		f.revoke()
	}
}

// offer brings a job, parked or new, that the lane takes or refuses.
func (f *laneFuzz) offer() {
	j := f.job(fmt.Sprint("d", f.r.IntN(4)), []string{"", "", "run_1"}[f.r.IntN(3)])
	j.size = 1 + f.r.IntN(100_000)
	reason := f.admit(j)
	if reason == "" {
		f.jobs++
		return
	}
	if j.work.Run != "" && reason == event.BreakerOpen {
		f.t.Fatal("a breaker refused what somebody asked for")
	}
	s := f.park(j.work, reason, 0)
	if s.due.Before(f.now.Add(time.Second)) || s.due.After(f.now.Add(longestPark)) {
		f.t.Fatalf("parked until %v", s.due.Sub(f.now))
	}
}

// begin lets a worker begin that was started.
func (f *laneFuzz) begin() {
	for l, n := range f.started {
		if n > 0 {
			f.started[l]--
			f.goOn(l, nil, result{})
			return
		}
	}
}

func (f *laneFuzz) goOn(l *lane, done *job, r result) {
	j := f.next(l, done, r)
	for j != nil && !j.slot.part.begin() { // its partition has left
		f.end(j)
		j = f.next(l, j, result{})
	}
	if j == nil {
		return
	}
	if flying := l.running; flying > l.window.most {
		f.t.Fatalf("%d workers, max_in_flight is %d", flying, l.window.most)
	}
	f.busy = append(f.busy, &flight{l, j})
}

func (f *laneFuzz) anyResult() result {
	kind := []resultKind{nothing, succeeded, succeeded, failed, failed, failed, timedOut, putBack}[f.r.IntN(8)]
	r := result{kind: kind}
	if kind == putBack {
		r.wait, r.rate = time.Duration(f.r.IntN(int(12*time.Second))+1), f.r.Float64()*20
	}
	return r
}

// finish ends what a worker does; one that must only park its job does so.
func (f *laneFuzz) finish(r result) {
	if len(f.busy) == 0 {
		return
	}
	i := f.r.IntN(len(f.busy))
	x := f.busy[i]
	f.busy[i] = f.busy[len(f.busy)-1]
	f.busy = f.busy[:len(f.busy)-1]
	if x.job.aside != "" {
		r = result{}
	}
	x.job.slot.part.end()
	if r.kind != putBack {
		f.end(x.job)
	}
	f.goOn(x.lane, x.job, r)
}

// revoke takes the partition away: what its lanes had queued is the next owner's.
func (f *laneFuzz) revoke() {
	f.part.stop()
	for _, l := range f.byDest {
		for _, q := range []*queue[*job]{&l.live, &l.runs} {
			for range q.len() {
				j, _ := q.pop()
				if q.push(j); j.slot.part == f.part {
					f.ended[j]++
				}
			}
		}
	}
	f.leave([]*partition{f.part})
	f.part, f.group = testPartition(f.t, stream.Events, 0)
}

// Whatever happens, each job that a lane took ends exactly once, the accounts are empty in the end, and no
// lane keeps work that nobody will do.
func TestEveryJobEndsOnce(t *testing.T) {
	for seed := range uint64(30) {
		f := &laneFuzz{laneTest: newLaneTest(t, 600), r: rand.New(rand.NewPCG(seed, 8)), t: t, ended: map[*job]int{}}
		f.maxBytes = 20_000_000
		f.inFlight = func(*event.Work) int { return []int{0, 1, 2, 64}[f.r.IntN(4)] }
		for range 20_000 {
			f.step()
		}
		for n := 0; ; n++ {
			for range 100 {
				f.begin()
				f.finish(result{kind: succeeded})
			}
			if jobs, _ := f.held(); jobs == 0 {
				break
			}
			if f.now = f.now.Add(time.Minute); n > 1000 {
				t.Fatalf("seed %d: %d jobs are left and nothing happens", seed, len(f.byDest))
			}
			f.rouse()
		}
		if len(f.ended) != f.jobs {
			t.Errorf("seed %d: %d of %d jobs ended", seed, len(f.ended), f.jobs)
		}
		for j, n := range f.ended {
			if n != 1 {
				t.Fatalf("seed %d: a job of %s ended %d times", seed, j.work.Dest, n)
			}
		}
		for range 1000 {
			f.begin()
		}
		jobs, bytes := f.held()
		for _, l := range f.byDest {
			if l.held != 0 || l.bytes != 0 || l.running != 0 || l.replaying != 0 || l.queued() != 0 {
				t.Errorf("seed %d: lane %s holds %d jobs, %d bytes, %d workers, %d replays", seed, l.dest, l.held, l.bytes, l.running, l.replaying)
			}
		}
		if jobs != 0 || bytes != 0 || f.workers != 0 {
			t.Errorf("seed %d: %d jobs, %d bytes, %d workers are held", seed, jobs, bytes, f.workers)
		}
	}
}
