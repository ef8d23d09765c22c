package limit

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// Limits of attempts to sign in.
const (
	maxSignIns       = 5  // with one email address from one client address
	maxClientSignIns = 20 // from one client address, with whatever email addresses
	signInSpan       = time.Minute
)

// SignIns limits attempts to sign in that did not succeed, per minute: five with one email address from one client
// address, and twenty from one client address with any email addresses, known or not. So one client makes a node hash
// at most twenty wrong passwords a minute, which take less than a second of the places for hashes: it cannot keep
// others from signing in. Addresses of one IPv6 network (/64) count as one, because a client has all of them.
//
// Whoever has many addresses is not bounded by this: n of them try 5n passwords of a person in a minute, and no more
// than all nodes can hash (see maxHashes in pkg/config/argon). There is no limit per person across addresses: with one,
// anybody could keep a person out.
type SignIns struct{ pairs, clients *Window }

// NewSignIns returns a SignIns that all nodes share through Redis.
func (l *Limiter) NewSignIns() *SignIns {
	return &SignIns{l.NewWindow("sign-in", signInSpan), l.NewWindow("sign-in-client", signInSpan)}
}

// Claim counts an attempt to sign in with that email address from that client. Claim before the password is verified:
// then attempts at the same time cannot be more than the limit. It returns 0, or for how long such attempts are
// refused; then it has counted nothing. It takes at most three times Config.Timeout.
func (s *SignIns) Claim(ctx context.Context, email string, from netip.Addr) (wait time.Duration) {
	ctx = context.WithoutCancel(ctx) // a client that hangs up is counted all the same
	client := web.NetworkOf(from).String()
	// The client comes first: it adds no more pairs than it may try.
	if wait = s.clients.Claim(ctx, client, maxClientSignIns); wait > 0 {
		return wait
	}
	if wait = s.pairs.Claim(ctx, pairKey(email, client), maxSignIns); wait > 0 {
		s.clients.Release(ctx, client)
	}
	return wait
}

// Release takes back an attempt that Claim has counted: the password was right, or was not verified. It takes at most
// twice Config.Timeout.
func (s *SignIns) Release(ctx context.Context, email string, from netip.Addr) {
	ctx = context.WithoutCancel(ctx)
	client := web.NetworkOf(from).String()
	s.pairs.Release(ctx, pairKey(email, client))
	s.clients.Release(ctx, client)
}

// pairKey returns the key of an email address and a client. Every spelling of an address that signs in the same user
// gives the same key.
func pairKey(email, client string) string {
	return client + " " + strings.ToLower(strings.TrimSpace(email))
}
