package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/embedded/claims"
	"github.com/eventrelay/relay/pkg/id"
)

// recoverClaims bounds the search for the events of the claims that a crash left pending. There are as many as requests
// were in flight.
const recoverClaims = time.Minute

// newClaims keeps the claims of events in a file if the settings name one, otherwise in Redis.
func newClaims(n *Node) (runFunc, error) {
	if n.claims = n.limiter; n.settings.ClaimsFile == "" {
		return nil, nil
	}
	store, err := claims.Open(claims.Config{Path: n.settings.ClaimsFile, Sync: n.settings.Fsync,
		PendingTTL: n.settings.Limit().PendingTTL}, claims.Deps{Log: n.log, Now: n.now})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(n.stack.Context(), recoverClaims)
	defer cancel()
	err = store.Recover(ctx, func(ctx context.Context, event id.ID) (bool, error) {
		return n.reader.LogHasEvent(ctx, n.control.Account().ID, event)
	})
	if err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "cannot decide which events an interrupted node has stored: if they are sent "+
			"again, they may be delivered twice", slog.Any("error", err))
	}
	n.claims = store
	return func(ctx context.Context) error {
		defer store.Close()
		return store.Run(ctx)
	}, nil
}

// limiterStore is what the API reads and writes in Redis, with the claims where they are.
type limiterStore struct {
	claim.Store
	held interface {
		HeldUntil(ctx context.Context, dests []string) map[string]time.Time
		SourceStatus(ctx context.Context, endpoint string) string
	}
}

// HeldUntil implements frame.LimiterStore.
func (s limiterStore) HeldUntil(ctx context.Context, dests []string) map[string]time.Time {
	return s.held.HeldUntil(ctx, dests)
}
