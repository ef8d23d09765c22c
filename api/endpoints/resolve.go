package endpoints

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
)

// maxLookups bounds the host names that one request resolves, each within half a second.
const maxLookups = 4

// maxLookupsPerMinute bounds the host names that this node resolves for an account, so that saving destinations
// cannot be used to scan a network's names.
const maxLookupsPerMinute = 60

// lookups counts the names that were resolved in the current minute.
type lookups struct {
	mu     sync.Mutex // guards the fields below
	minute time.Time
	count  map[string]int // by account, in that minute
}

// allow counts one more name of the account and reports whether it may be resolved.
func (l *lookups) allow(account string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(l.minute) {
		l.minute, l.count = minute, make(map[string]int)
	}
	if l.count[account] >= maxLookupsPerMinute {
		return false
	}
	l.count[account]++
	return true
}

// warnAddresses resolves the hosts that a change added and warns about blocked addresses. The delivery itself checks
// the address again when it connects.
func (a *endpoints) warnAddresses(ctx context.Context, in *endpointInput, before, after *config.Endpoint) {
	if a.resolver == nil {
		return
	}
	seen := map[string]bool{}
	if before != nil {
		for _, d := range before.Destinations {
			seen[hostOf(d.URL)] = true
		}
	}
	n := 0
	for i, d := range after.Destinations {
		host := hostOf(d.URL)
		if seen[host] || n == maxLookups || !a.lookups.allow(after.Account, a.Now()) {
			continue
		}
		seen[host] = true
		n++
		if text := a.egress.LookupWarning(ctx, a.resolver, host); text != "" {
			in.Warn(frame.Indexed("destinations", i)+".url", text)
		}
	}
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "" // cannot happen: stored URLs were parsed when they were saved
	}
	return u.Hostname()
}
