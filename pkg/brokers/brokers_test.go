package brokers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// What a client cancels as it closes does not hide why it could not connect; a connection does.
func TestErrorOfTheConnection(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	var failed atomic.Pointer[error]
	note(ctx, refused, &failed)
	cancel()
	note(ctx, ctx.Err(), &failed)
	if why := failed.Load(); why == nil || !errors.Is(*why, refused) {
		t.Errorf("%v", why)
	}
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	note(late, late.Err(), &failed)
	if why := failed.Load(); why == nil || !errors.Is(*why, context.DeadlineExceeded) {
		t.Errorf("%v", why)
	}
	note(t.Context(), nil, &failed)
	if why := failed.Load(); why != nil {
		t.Errorf("%v", *why)
	}
}
