package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// scopes are the endpoints for which this node is counting or queueing a selection: one at a time for each. Other
// nodes are kept out by the run, once there is one.
type activeScopes struct {
	mu       sync.Mutex     // guards the rest
	active   [][]string     // an empty one stands for every endpoint
	planning map[string]int // by account: selections that are being counted
}

// take reports whether the scope shares no endpoint with an active one, and makes it active.
func (s *activeScopes) tryAcquire(scope []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.active {
		if len(scope) == 0 || len(other) == 0 ||
			slices.ContainsFunc(scope, func(e string) bool { return slices.Contains(other, e) }) {
			return false
		}
	}
	s.active = append(s.active, scope)
	return true
}

// leave ends a scope that was taken.
func (s *activeScopes) release(scope []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, func(other []string) bool { return slices.Equal(other, scope) })
	s.active = slices.Delete(s.active, i, i+1)
}

// maxPlans bounds the selections of an account that this node counts at once: each reads up to a gigabyte, and one
// call for each endpoint would let an account have as many as it has endpoints.
const maxPlans = 2

// startPlan reports whether one more may be counted, and counts it as such.
func (s *activeScopes) startPlan(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planning[account] >= maxPlans {
		return false
	}
	if s.planning == nil {
		s.planning = map[string]int{}
	}
	s.planning[account]++
	return true
}

func (s *activeScopes) endPlan(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planning[account]--; s.planning[account] == 0 {
		delete(s.planning, account)
	}
}

// planWithinLimit counts a selection when fewer than maxPlans of the account are being counted.
func (a *replays) planWithinLimit(ctx context.Context, s *selection) (*plan, error) {
	account := s.query.Account
	err := a.retryUntilDone(ctx, func() (bool, error) {
		if a.scopes.startPlan(account) {
			return true, nil
		}
		return false, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d other replays are being counted; nothing was queued, send it again", maxPlans)}
	})
	if err != nil {
		return nil, err
	}
	defer a.scopes.endPlan(account)
	return a.planner.plan(ctx, s)
}

// turn waits until no other selection of this node shares an endpoint.
func (a *replays) acquireScope(ctx context.Context, scope []string) (release func(), err error) {
	err = a.retryUntilDone(ctx, func() (bool, error) {
		if a.scopes.tryAcquire(scope) {
			return true, nil
		}
		return false, config.ErrEndpointBusy
	})
	return func() { a.scopes.release(scope) }, err
}

func errBusy() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "another replay is queueing deliveries of the same endpoint; nothing was queued, send it again"}
}
