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
				first, n := s.nextEvents()
				if n == 0 {
					return
				}
				c.post(ctx, first, n, time.Now())
			}
		})
	}
}

// nextEvents returns the events of the next request, at most a batch; n = 0 means that none are left.
func (s *stream) nextEvents() (first, n int64) {
	size := int64(max(s.Batch, 1))
	first = s.next.Add(size) - size
	return first, max(min(size, s.Events-first), 0)
}

// duePost is one request of an open loop.
type duePost struct {
	first, n int64
	due      time.Time
}

// poster is a connection that waits for due posts.
type poster struct {
	*connection
	due chan duePost // of capacity 1, so that sending to it never blocks
}

// openLoop gives each request, when it is due, to the connection that became free last, so that a low rate uses few
// connections, as the pools of clients do. If none is free it waits, and the requests that become due meanwhile are
// posted late.
func (s *stream) openLoop(ctx, stop context.Context, wg *sync.WaitGroup) {
	free := newStack(s.Conns)
	posters := make([]*poster, s.Conns)
	for i := range posters {
		p := &poster{s.connection(), make(chan duePost, 1)}
		posters[i] = p
		free.push(p)
		wg.Go(func() {
			defer p.close()
			for o := range p.due {
				p.post(ctx, o.first, o.n, o.due)
				free.push(p)
			}
		})
	}
	defer func() {
		for _, p := range posters {
			close(p.due)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		first, n := s.nextEvents()
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
		p.due <- duePost{first, n, due}
	}
}

// stack holds the free connections, the last one on top.
type stack struct {
	mu    sync.Mutex // guards free
	free  []*poster
	count chan struct{} // one token per free connection; the capacity is the number of connections
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
