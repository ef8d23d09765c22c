package jobs

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/web"
)

// activeScopes holds the scopes, sets of endpoints, whose selections this node is counting or queueing: one at a
// time for each endpoint. Other nodes are kept out by the run in the configuration log.
type activeScopes struct {
	mu       sync.Mutex     // guards the fields below
	active   [][]string     // an empty scope means every endpoint
	planning map[string]int // selections being counted, by account
}

// tryAcquire activates the scope unless it shares an endpoint with an active one, and reports whether it did.
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

// release deactivates an acquired scope.
func (s *activeScopes) release(scope []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, func(other []string) bool { return slices.Equal(other, scope) })
	s.active = slices.Delete(s.active, i, i+1)
}

// maxPlans bounds the selections of an account that this node counts at the same time. Each reads up to a gigabyte,
// and without the limit an account could have one for each of its endpoints.
const maxPlans = 2

// startPlan reserves one of the account's maxPlans and reports whether one was free.
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

// planWithinLimit counts a selection as soon as one of the account's maxPlans is free.
func (a *replays) planWithinLimit(ctx context.Context, s *selection) (*plan, error) {
	account := s.query.Account
	err := a.RetryUntilDone(ctx, func() (bool, error) {
		if a.scopes.startPlan(account) {
			return true, nil
		}
		return false, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("this node is already counting %d replays of the account; nothing was queued, send it again",
				maxPlans)}
	})
	if err != nil {
		return nil, err
	}
	defer a.scopes.endPlan(account)
	return a.planner.plan(ctx, s)
}

// acquireScope waits until no other selection on this node shares an endpoint with the scope. The caller calls
// release.
func (a *replays) acquireScope(ctx context.Context, scope []string) (release func(), err error) {
	err = a.RetryUntilDone(ctx, func() (bool, error) {
		if a.scopes.tryAcquire(scope) {
			return true, nil
		}
		return false, jobs.ErrEndpointBusy
	})
	return func() { a.scopes.release(scope) }, err
}
