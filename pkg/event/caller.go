package event

import (
	"context"
	"strings"
)

type callerKey struct{}

// tenantCaller precedes the name of a tenant in a caller. Ids of keys and people begin otherwise.
const tenantCaller = "tenant "

// WithCaller marks ctx with the API key that a read of the store is for. The store limits the reads that run at once
// for one key (see store/read/cluster/slots.go). All keys and people of a tenant are one caller.
func WithCaller(ctx context.Context, key, tenant string) context.Context {
	if tenant != "" {
		key = tenantCaller + tenant
	}
	return context.WithValue(ctx, callerKey{}, key)
}

// Caller returns the API key or the tenant that a read of the store is for; "" for the service's own reads.
func Caller(ctx context.Context) string {
	key, _ := ctx.Value(callerKey{}).(string)
	return key
}

// IsTenant reports whether a caller is a tenant.
func IsTenant(caller string) bool { return strings.HasPrefix(caller, tenantCaller) }
