package limit

import (
	"context"
	"sync"
	"time"
)

// maxStatuses bounds the statuses that a node without Redis keeps: more than there are sources.
const maxStatuses = 1000

// sourceStatuses are the statuses of the sources of endpoints on a node without Redis.
type sourceStatuses struct {
	mu    sync.Mutex // guards known
	known map[string]sourceStatus
}

type sourceStatus struct {
	text  string
	until time.Time
}

// SetSourceStatus shows the status of an endpoint's source to all nodes. Best effort.
func (l *Limiter) SetSourceStatus(endpoint, status string, life time.Duration) {
	if l.client != nil {
		_ = l.call(context.Background(), "held", func(ctx context.Context) error {
			return l.client.Set(ctx, heldKey(endpoint), status, life).Err()
		})
		return
	}
	s := &l.sourceStatuses
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxStatuses {
		s.known = map[string]sourceStatus{}
	}
	s.known[endpoint] = sourceStatus{status, l.now().Add(life)}
}

// SourceStatus returns the status of an endpoint's source, empty if it is not known.
func (l *Limiter) SourceStatus(ctx context.Context, endpoint string) (status string) {
	if l.client != nil {
		_ = l.call(ctx, "held", func(ctx context.Context) (err error) {
			status, err = l.client.Get(ctx, heldKey(endpoint)).Result()
			return ignoreNil(err)
		})
		return status
	}
	s := &l.sourceStatuses
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[endpoint]; l.now().Before(known.until) {
		return known.text
	}
	return ""
}
