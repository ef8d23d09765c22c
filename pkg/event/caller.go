package event

import "context"

type callerKey struct{}

// WithCaller marks ctx with the API key that a read of the store is for. The store limits the reads that run at once
// for one key (see store/read/slots.go).
func WithCaller(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, callerKey{}, key)
}

// Caller returns the API key that a read of the store is for; "" for the service's own reads.
func Caller(ctx context.Context) string {
	key, _ := ctx.Value(callerKey{}).(string)
	return key
}
