package destination

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Names caches the properties of header names, since the same names come with every request. The zero value is
// an empty cache.
type Names struct {
	known atomic.Pointer[map[string]headerName] // replaced, never changed
	mu    sync.Mutex                            // held while it is replaced
}

// headerName is the canonical form of a header name, and whether its value is masked.
type headerName struct {
	canonical  string
	credential bool // its value is masked: a header of that name usually carries a secret
}

// Bounds of the cache: 128 KiB of names. Names beyond it, and longer ones, are computed each time: a receiver can send
// names of 64 KiB.
const (
	maxHeaderNames    = 1024
	maxHeaderNameSize = 128 // bytes
)

// lookup returns the properties of a name.
func (n *Names) lookup(name string) headerName {
	if known := n.known.Load(); known != nil {
		if cached, ok := (*known)[name]; ok {
			return cached
		}
	}
	return n.add(strings.Clone(name)) // the name is part of a message that must not stay in memory
}

func (n *Names) add(name string) headerName {
	computed := headerName{Canonical(name), isCredential(name)}
	if len(name) > maxHeaderNameSize {
		return computed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := make(map[string]headerName)
	if known := n.known.Load(); known != nil {
		if len(*known) >= maxHeaderNames {
			return computed
		}
		maps.Copy(grown, *known)
	}
	grown[name] = computed
	n.known.Store(&grown)
	return computed
}

func isCredential(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "cookie", "token", "secret", "passw", "api-key", "apikey", "access-key",
		"credential", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
