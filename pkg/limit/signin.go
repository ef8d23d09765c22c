package limit

import (
	"context"
	"net/netip"
	"strings"
	"time"
)

// Limits of failed sign-ins.
const (
	maxFailedSignIns = 5
	failedSignInSpan = time.Minute
)

// SignIns limits failed sign-ins: after five with one email address from one client address within a minute, further
// ones are refused until the minute has passed. Addresses of one IPv6 network (/64) count as one, because a client
// has all of them.
type SignIns struct{ failed *Window }

// NewSignIns returns a SignIns that all nodes share through Redis.
func (l *Limiter) NewSignIns() *SignIns { return &SignIns{l.NewWindow("sign-in", failedSignInSpan)} }

// Refused returns for how long a sign-in with that email address from that client is refused; 0: it is not. Ask it
// before a password is verified, and again before a right password opens a session: other attempts may have failed
// meanwhile. It takes at most Config.Timeout.
func (s *SignIns) Refused(ctx context.Context, email string, from netip.Addr) time.Duration {
	if n, left := s.failed.Count(ctx, signInKey(email, from)); n >= maxFailedSignIns {
		return left
	}
	return 0
}

// Failed counts a failed sign-in. It takes at most Config.Timeout.
func (s *SignIns) Failed(ctx context.Context, email string, from netip.Addr) {
	s.failed.Add(context.WithoutCancel(ctx), signInKey(email, from)) // a client that hangs up must not avoid it
}

// signInKey returns the key of a pair. Every spelling of an address that signs in the same user gives the same key.
func signInKey(email string, from netip.Addr) string {
	from = from.Unmap()
	network := from.String()
	if from.Is6() {
		if p, err := from.WithZone("").Prefix(64); err == nil {
			network = p.String()
		}
	}
	return network + " " + strings.ToLower(strings.TrimSpace(email))
}
