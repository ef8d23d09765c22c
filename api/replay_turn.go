package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// scopes are the endpoints for which this node is counting or queueing a selection: one at a time for each. Other
// nodes are kept out by the run, once there is one.
type scopes struct {
	mu     sync.Mutex // guards active
	active [][]string // an empty one stands for every endpoint
}

// take reports whether the scope shares no endpoint with an active one, and makes it active.
func (s *scopes) take(scope []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.active {
		if len(scope) == 0 || len(other) == 0 || slices.ContainsFunc(scope, func(e string) bool { return slices.Contains(other, e) }) {
			return false
		}
	}
	s.active = append(s.active, scope)
	return true
}

// leave ends a scope that was taken.
func (s *scopes) leave(scope []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, func(other []string) bool { return slices.Equal(other, scope) })
	s.active = slices.Delete(s.active, i, i+1)
}

// turn waits until no other selection of this node shares an endpoint.
func (a *API) turn(ctx context.Context, scope []string) (release func(), err error) {
	err = a.wait(ctx, func() (bool, error) {
		if a.replaying.take(scope) {
			return true, nil
		}
		return false, control.ErrBusy
	})
	return func() { a.replaying.leave(scope) }, err
}

func errBusy() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "another replay is queueing deliveries of the same endpoint; nothing was queued, send it again"}
}

// wait tries until it is done, with growing pauses, at most for idempotencyWait. It returns the error of the last try.
func (a *API) wait(ctx context.Context, try func() (done bool, err error)) error {
	done, err := try()
	if done {
		return err
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxWaiting {
		return err
	}
	enough := time.NewTimer(idempotencyWait)
	defer enough.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		select {
		case <-ctx.Done():
			return err // to nobody
		case <-enough.C:
			return err
		case <-time.After(pause):
		}
		if done, err = try(); done {
			return err
		}
	}
}
