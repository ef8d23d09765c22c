package lane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// laneFuzz does whatever can happen to lanes, in any order, and keeps count of every job.
type laneFuzz struct {
	*laneTest
	r     *rand.Rand
	t     *testing.T
	ended map[*Delivery]int
	jobs  int
	busy  []*flight // workers with a job
}

type flight struct {
	lane *Lane
	job  *Delivery
}

func (f *laneFuzz) end(j *Delivery) {
	f.ended[j]++
	f.Free(j)
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
		shed, _ := f.Recheck()
		for _, j := range shed {
			f.end(j)
		}
	default:
		f.now = f.now.Add(time.Duration((f.r.Float64() - 0.5) * float64(4*time.Hour))) // the clock is set
		f.Sweep()
	}
	if f.r.IntN(2000) == 0 {
		f.revoke()
	}
}

// offer brings a job, parked or new, that the lane takes or refuses.
func (f *laneFuzz) offer() {
	j := f.job(fmt.Sprint("d", f.r.IntN(4)), []string{"", "", "run_1"}[f.r.IntN(3)])
	j.Size = 1 + f.r.IntN(100_000)
	reason := f.Admit(j)
	if reason == "" {
		f.jobs++
		return
	}
	if j.Work.Run != "" && reason == event.BreakerOpen {
		f.t.Fatal("a breaker refused what somebody asked for")
	}
	s := f.Park(j.Work, reason, 0)
	if s.Due.Before(f.now.Add(time.Second)) || s.Due.After(f.now.Add(LongestPark)) {
		f.t.Fatalf("parked until %v", s.Due.Sub(f.now))
	}
}

// begin lets a worker begin that was started.
func (f *laneFuzz) begin() {
	for l, n := range f.started {
		if n > 0 {
			f.started[l]--
			f.goOn(l, nil, Result{})
			return
		}
	}
}

func (f *laneFuzz) goOn(l *Lane, done *Delivery, r Result) {
	j := f.Next(l, done, r)
	for j != nil && j.Slot.(*testSlot).part.left { // its partition has left
		f.end(j)
		j = f.Next(l, j, Result{})
	}
	if j == nil {
		return
	}
	if flying := l.running; flying > l.window.most {
		f.t.Fatalf("%d workers, max_in_flight is %d", flying, l.window.most)
	}
	f.busy = append(f.busy, &flight{l, j})
}

func (f *laneFuzz) anyResult() Result {
	kind := []ResultKind{Nothing, Succeeded, Succeeded, Failed, Failed, Failed, TimedOut, PutBack}[f.r.IntN(8)]
	r := Result{Kind: kind}
	if kind == PutBack {
		r.Wait, r.Rate = time.Duration(f.r.IntN(int(12*time.Second))+1), f.r.Float64()*20
	}
	return r
}

// finish ends what a worker does; one that must only park its job does so.
func (f *laneFuzz) finish(r Result) {
	if len(f.busy) == 0 {
		return
	}
	i := f.r.IntN(len(f.busy))
	x := f.busy[i]
	f.busy[i] = f.busy[len(f.busy)-1]
	f.busy = f.busy[:len(f.busy)-1]
	if x.job.Aside != "" {
		r = Result{}
	}
	if r.Kind != PutBack {
		f.end(x.job)
	}
	f.goOn(x.lane, x.job, r)
}

// revoke takes the partition away: what its lanes had queued is the next owner's.
func (f *laneFuzz) revoke() {
	f.part.left = true
	for _, l := range f.byDest {
		for _, q := range []*queue[*Delivery]{&l.live, &l.runs} {
			for range q.len() {
				j, _ := q.pop()
				if q.push(j); j.Slot.Source() == &f.part.Source {
					f.ended[j]++
				}
			}
		}
	}
	f.Leave([]*Source{&f.part.Source})
	f.part = newTestPartition()
}

// Whatever happens, each job that a lane took ends exactly once, the accounts are empty in the end, and no
// lane keeps work that nobody will do.
func TestEveryJobEndsOnce(t *testing.T) {
	for seed := range uint64(30) {
		f := &laneFuzz{laneTest: newLaneTest(t, 600), r: rand.New(rand.NewPCG(seed, 8)), t: t, ended: map[*Delivery]int{}}
		f.maxBytes = 20_000_000
		f.inFlight = func(*event.Work) int { return []int{0, 1, 2, 64}[f.r.IntN(4)] }
		for range 20_000 {
			f.step()
		}
		for n := 0; ; n++ {
			for range 100 {
				f.begin()
				f.finish(Result{Kind: Succeeded})
			}
			if jobs, _ := f.Held(); jobs == 0 {
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
				t.Fatalf("seed %d: a job of %s ended %d times", seed, j.Work.Dest, n)
			}
		}
		for range 1000 {
			f.begin()
		}
		jobs, bytes := f.Held()
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
