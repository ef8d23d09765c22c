package config

import "context"

type sessionCheckKey struct{}

// WithSessionCheck returns a context for requests of a signed-in person. Work that takes long calls check between its
// steps, and the request of an action before it changes anything: it returns the person in the form of a key, with the
// scope that the person has now; ErrLease while this node cannot confirm sessions; or another error when the session
// has ended.
func WithSessionCheck(ctx context.Context, check func() (*Key, error)) context.Context {
	return context.WithValue(ctx, sessionCheckKey{}, check)
}

// SessionCheck returns the check of WithSessionCheck, nil if ctx has none.
func SessionCheck(ctx context.Context) func() (*Key, error) {
	check, _ := ctx.Value(sessionCheckKey{}).(func() (*Key, error))
	return check
}
