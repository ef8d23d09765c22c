package scan

import (
	"context"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// slowest is the longest time between two requests to a host.
	slowest = 5 * time.Second
	// slowFor is how long a host that has refused requests is asked less often.
	slowFor = 10 * time.Minute
	// maxHosts bounds the hosts that are remembered.
	maxHosts = 1_000
)

// pace spreads the requests to each host evenly, over all scans of the process.
type pace struct {
	interval time.Duration
	now      func() time.Time
	mu       sync.Mutex // guards hosts
	hosts    map[string]*hostPace
}

// hostPace is the pace of one host.
type hostPace struct {
	next     time.Time // of the next request
	interval time.Duration
	slowedAt time.Time
}

func newPace(interval time.Duration, now func() time.Time) *pace {
	return &pace{interval: interval, now: now, hosts: map[string]*hostPace{}}
}

// wait returns when a request may be sent to a host, or the error of ctx.
func (p *pace) wait(ctx context.Context, host string) error {
	return wait.For(ctx, p.reserve(host))
}

// reserve takes the next turn of a host and returns the time until it.
func (p *pace) reserve(host string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	h := p.hostLocked(host, now)
	if now.Sub(h.slowedAt) > slowFor {
		h.interval = p.interval
	}
	turn := h.next
	if turn.Before(now) {
		turn = now
	}
	h.next = turn.Add(h.interval)
	return turn.Sub(now)
}

// slowDown halves the rate of a host.
func (p *pace) slowDown(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	h := p.hostLocked(host, now)
	h.interval, h.slowedAt = min(h.interval*2, max(slowest, p.interval)), now
	if next := now.Add(h.interval); next.After(h.next) { // turns that are taken stay apart
		h.next = next
	}
}

// hostLocked returns the pace of a host. p.mu is held.
func (p *pace) hostLocked(host string, now time.Time) *hostPace {
	h := p.hosts[host]
	if h != nil {
		return h
	}
	if len(p.hosts) >= maxHosts {
		for name, h := range p.hosts {
			if h.next.Before(now) && now.Sub(h.slowedAt) > slowFor {
				delete(p.hosts, name)
			}
		}
	}
	h = &hostPace{interval: p.interval}
	p.hosts[host] = h
	return h
}
