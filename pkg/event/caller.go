package event

import "context"

type callerKey struct{}

// WithCaller says for which API key the store is asked. It bounds what one key has it do at once.
func WithCaller(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, callerKey{}, key)
}

// Caller is the API key for which the store is asked; "" where the service asks for itself.
func Caller(ctx context.Context) string {
	key, _ := ctx.Value(callerKey{}).(string)
	return key
}
