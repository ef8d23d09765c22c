package dispatcher

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// headerNames remembers what there is to know of header names: the same ones come with every request. The
// zero value knows none.
type headerNames struct {
	known atomic.Pointer[map[string]headerName] // replaced, never changed
	mu    sync.Mutex                            // held while it is replaced
}

type headerName struct {
	canonical  string
	credential bool // a header of that name usually carries a secret
}

// maxHeaderNames bounds what is remembered; who sends more names than that pays for them each time.
const maxHeaderNames = 1024

func (n *headerNames) lookup(name string) headerName {
	if known := n.known.Load(); known != nil {
		if x, ok := (*known)[name]; ok {
			return x
		}
	}
	return n.add(strings.Clone(name)) // not to keep the message alive that it is a part of
}

func (n *headerNames) add(name string) headerName {
	x := headerName{canonical(name), isCredential(name)}
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := make(map[string]headerName)
	if known := n.known.Load(); known != nil {
		if len(*known) >= maxHeaderNames {
			return x
		}
		maps.Copy(grown, *known)
	}
	grown[name] = x
	n.known.Store(&grown)
	return x
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
