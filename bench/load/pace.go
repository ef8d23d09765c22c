package load

import (
	"context"
	"sync"
	"time"
)

// run posts until the stream's end or ctx's.
func (s *stream) run(ctx context.Context) {
	s.began = time.Now()
	stop := ctx
	if s.For > 0 {
		var cancel context.CancelFunc
		stop, cancel = context.WithDeadline(ctx, s.began.Add(s.For))
		defer cancel()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.Rate > 0 {
		s.openLoop(ctx, stop, &wg)
		return
	}
	for range s.Conns {
		c := s.connection()
		wg.Go(func() {
			defer c.close()
			for stop.Err() == nil {
				first, n := s.take()
				if n == 0 {
					return
				}
				c.post(ctx, first, n, time.Now())
			}
		})
	}
}

// take is the next request's events, at most a batch; none are left when it is 0.
func (s *stream) take() (first, n int64) {
	size := int64(max(s.Batch, 1))
	first = s.next.Add(size) - size
	return first, max(min(size, s.Events-first), 0)
}

// order is one request of an open loop.
type order struct {
	first, n int64
	due      time.Time
}

// poster is a connection that waits for orders.
type poster struct {
	*connection
	orders chan order // of capacity 1: who hands over an order never waits
}

// openLoop hands each request, when it is due, to the connection that was free last, so that a slow rate
// uses few connections, as pools of clients do. While none is free it waits, and the requests that
// become due meanwhile are posted late.
func (s *stream) openLoop(ctx, stop context.Context, wg *sync.WaitGroup) {
	free := newStack(s.Conns)
	posters := make([]*poster, s.Conns)
	for i := range posters {
		p := &poster{s.connection(), make(chan order, 1)}
		posters[i] = p
		free.push(p)
		wg.Go(func() {
			defer p.close()
			for o := range p.orders {
				p.post(ctx, o.first, o.n, o.due)
				free.push(p)
			}
		})
	}
	defer func() {
		for _, p := range posters {
			close(p.orders)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		first, n := s.take()
		if n == 0 {
			return
		}
		due := s.began.Add(time.Duration(float64(first) / s.Rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-stop.Done():
				return
			}
		}
		if end, ok := stop.Deadline(); ok && !due.Before(end) {
			return
		}
		p := free.pop(ctx)
		if p == nil {
			return
		}
		if time.Since(due) > lateAfter {
			s.late.Add(n)
		}
		p.orders <- order{first, n, due}
	}
}

// stack holds the free connections.
type stack struct {
	mu    sync.Mutex // guards free
	free  []*poster
	count chan struct{} // a token for each free one; capacity is the number of connections
}

func newStack(n int) *stack { return &stack{count: make(chan struct{}, n)} }

func (s *stack) push(p *poster) {
	s.mu.Lock()
	s.free = append(s.free, p)
	s.mu.Unlock()
	s.count <- struct{}{}
}

// pop waits for a free connection; nil when ctx ends first.
func (s *stack) pop(ctx context.Context) *poster {
	select {
	case <-s.count:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return p
}
