package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	{"log refuses", true, func(w *World) func() {
		why := []*kerr.Error{kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotLeaderForPartition}[w.intn(3)]
		w.trace("the log refuses to append: %v", why.Message)
		h := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: why, Count: -1})
		return h.Remove
	}},
	{"commits refused", true, func(w *World) func() {
		w.trace("the log refuses commits")
		h := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: -1})
		return h.Remove
	}},
	{"rebalance", true, func(w *World) func() {
		w.trace("the group forgets a member")
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
		return nil
	}},
	{"clock", true, func(w *World) func() {
		n := w.nodes[w.intn(len(w.nodes))]
		by := w.between(-2*time.Minute, 2*time.Minute)
		w.trace("the clock of %s is set by %v", n.name, by)
		n.skew.Store(int64(by))
		return func() { n.skew.Store(0) }
	}},
	{"destination down", false, func(w *World) func() {
		hosts := []string{"d1.example.com", "d2.example.com", "d3.example.com"}
		d := w.dests[hosts[w.intn(len(hosts))]]
		mode, status := w.intn(modes), []int{500, 503, 429, 404, 400}[w.intn(3)]
		w.trace("%s is down in mode %d, with %d", d.host, mode, status)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.down, d.mode, d.status = time.Now().Add(24*time.Hour), mode, status
		return func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.down = time.Time{}
		}
	}},
}

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
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		time.Sleep(w.between(time.Second, 40*time.Second))
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
		if w.cfg.Quiet {
			continue
		}
		f := faults[w.intn(len(faults))]
		w.mu.Lock()
		w.faults++
		w.mu.Unlock()
		if f.repeats {
			w.oracle.disturb()
		}
		if stop := f.begin(w); stop != nil {
			now = append(now, running{time.Now().Add(w.between(100*time.Millisecond, 90*time.Second)), stop, f.name})
		}
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
