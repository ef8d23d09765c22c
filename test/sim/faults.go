package sim

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// fault is something that goes wrong, and for how long.
type fault struct {
	name    string
	repeats bool // it may repeat deliveries
	begin   func(w *World) (end func())
}

// faults are all kinds of them. Each is as likely as the others.
var faults = []fault{
	{"kill", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		n.Kill()
		return func() {
			if n.current() == nil {
				n.Start()
			}
		}
	}},
	{"kill at a call", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		if l := n.current(); l != nil {
			l.fuse.Store(int64(1 + w.intn(300)))
		}
		return func() {
			if l := n.current(); l != nil {
				l.fuse.Store(0)
			}
			if n.current() == nil {
				n.Start()
			}
		}
	}},
	{"stop", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		n.Stop()
		return func() {
			if n.current() == nil {
				n.Start()
			}
		}
	}},
	{"pause", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		n.Pause()
		return n.resume
	}},
	{"log unreachable", true, func(w *World) func() {
		return w.block(func(l *life) *link { return l.kafka }, "Kafka")
	}},
	{"Redis unreachable", false, func(w *World) func() {
		return w.block(func(l *life) *link { return l.redis }, "Redis")
	}},
	{"store unreachable", false, func(w *World) func() {
		w.store.down.Store(true)
		return func() { w.store.down.Store(false) }
	}},
	{"log connections break", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		if l := n.current(); l != nil {
			w.trace("connections of %s to Kafka break", n.name)
			l.kafka.reset()
		}
		return nil
	}},
	{"Redis connections break", false, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		if l := n.current(); l != nil {
			w.trace("connections of %s to Redis break", n.name)
			l.redis.reset()
		}
		return nil
	}},
	{"slow network", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		l := n.current()
		if l == nil {
			return nil
		}
		by := w.between(20*time.Millisecond, 3*time.Second)
		w.trace("the network of %s is slower by %v", n.name, by)
		for _, link := range []*link{l.kafka, l.redis} {
			link.change(func() { link.slow = by })
		}
		return func() {
			for _, link := range []*link{l.kafka, l.redis} {
				link.change(func() { link.slow = 0 })
			}
		}
	}},
	{"slow configuration", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		l := n.current()
		if l == nil {
			return nil
		}
		by := w.between(100*time.Millisecond, 2*time.Second)
		w.trace("changes reach %s %v later", n.name, by)
		l.kafka.change(func() { l.kafka.lag = by })
		return func() { l.kafka.change(func() { l.kafka.lag = 0 }) }
	}},
	{"log refuses", true, func(w *World) func() {
		why := []*kerr.Error{kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotLeaderForPartition,
			kerr.TopicAuthorizationFailed, kerr.UnknownServerError}[w.intn(5)]
		w.trace("the log refuses to append: %v", why.Message)
		return w.kafka.refuse(why)
	}},
	{"leader moves", true, func(w *World) func() {
		index := int32(w.intn(int(w.partitions)))
		w.trace("partitions %d get other leaders", index)
		return w.kafka.move(index)
	}},
	{"commits refused", true, func(w *World) func() {
		w.trace("the log refuses commits")
		return w.kafka.dropCoordinators()
	}},
	{"rebalance", true, func(w *World) func() {
		w.trace("the group forgets a member")
		w.kafka.forgetMember()
		return nil
	}},
	{"clock", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		by := w.between(-2*time.Minute, 2*time.Minute)
		w.trace("the clock of %s is set by %v", n.name, by)
		n.skew.Store(int64(by))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.skewing++
		return func() {
			n.skew.Store(0)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.skewing--
			w.skewEnded = time.Now()
		}
	}},
	{"destination down", false, func(w *World) func() {
		d := w.dest(receivers[w.intn(len(receivers))])
		mode, status := w.intn(modes), []int{500, 503, 429, 404, 400}[w.intn(5)]
		w.trace("%s is down in mode %d, with %d", d.host, mode, status)
		d.set(time.Now().Add(24*time.Hour), mode, status)
		return func() { d.set(time.Time{}, mode, status) }
	}},
}

// receivers are destinations that fail at times.
var receivers = []string{"d1.example.com", "d2.example.com", "d3.example.com", "ordered.example.com",
	"batch.example.com",
	"strict.example.com", "rated.example.com", "timed.example.com"}

// block stops the traffic of a node to an engine; bytes on their way arrive later, or never.
func (w *World) block(of func(*life) *link, engine string) func() {
	n := w.nodes[w.intn(len(w.nodes))]
	l := n.current()
	if l == nil {
		return nil
	}
	w.trace("%s does not reach %s", n.name, engine)
	of(l).change(func() { of(l).blocked = true })
	return func() {
		if w.intn(2) == 0 {
			of(l).reset()
		}
		of(l).change(func() { of(l).blocked = false })
	}
}

// misfortune lets faults happen for a time. Several may last at once.
func (w *World) misfortune(lasts time.Duration) {
	type running struct {
		until time.Time
		end   func()
		name  string
	}
	var now []running
	pace := []time.Duration{3 * time.Second, 12 * time.Second, 40 * time.Second}[w.intn(3)] // between faults, at most
	kinds := faults
	if w.machine != nil { // most of them end its only process
		kinds, pace = machineFaults, max(pace, 12*time.Second)
	}
	end := time.Now().Add(lasts)
	for k := range math.MaxInt {
		if !time.Now().Before(end) {
			break
		}
		w.reseed(k, 0) // so that a fault is the same one without others
		f, length := kinds[w.intn(len(kinds))], w.between(100*time.Millisecond, max(2*pace, 45*time.Second))
		time.Sleep(w.between(500*time.Millisecond, pace))
		keep := now[:0]
		for _, r := range now {
			if time.Now().Before(r.until) {
				keep = append(keep, r)
				continue
			}
			w.trace("end of %s", r.name)
			r.end()
		}
		now = keep
		if w.cfg.Quiet || slices.Contains(w.cfg.Skip, k) {
			continue
		}
		w.reseed(k, 1)
		w.mu.Lock()
		w.faults++
		w.mu.Unlock()
		w.trace("fault %d: %s", k, f.name)
		calm := func() {}
		if f.repeats {
			calm = w.oracle.disturb()
		}
		stop := f.begin(w)
		if stop == nil {
			calm()
			continue
		}
		end := func() {
			stop()
			calm()
		}
		now = append(now, running{time.Now().Add(length), end, f.name})
	}
	for _, r := range now {
		w.trace("end of %s", r.name)
		r.end()
	}
}

// heal ends what faults may have left.
func (w *World) heal() {
	for _, n := range w.nodes {
		n.resume()
		n.skew.Store(0)
		if n.current() == nil {
			n.Start()
		}
	}
}
