package ingest

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of reading request bodies.
const (
	// maxReading bounds the bytes that have arrived of all bodies that are being read at once, beyond what is in the
	// log's buffer. Their memory is at most twice that.
	maxReading = 512 << 20
	// shareOf is the part of it that one endpoint, and one client, may have: eight of them that stall leave nothing
	// to others, fewer do.
	shareOf = 8
	// firstRead is what is set aside for a body before any of it was seen: no header makes us allocate more.
	firstRead = 4 << 10
	// A body must have arrived at minRate bytes a second after bodyGrace, which is long enough for a few lost packets.
	bodyGrace = 5 * time.Second
	minRate   = 16 << 10
	// discardTimeout bounds reading on in a body that is too large, of which nothing is kept.
	discardTimeout = 30 * time.Second
)

var (
	errTooLarge = errors.New("body is too large")
	errSlow     = errors.New("body did not arrive in time")
	errCrowded  = errors.New("too many bodies are being read")
	errShare    = errors.New("too much is being read for one endpoint or client")
)

// bodyReader reads bodies within the bounds.
type bodyReader struct {
	max     int64
	budget  int64
	grace   time.Duration // of which the Front has set the deadline
	reading atomic.Int64  // bytes

	mu     sync.Mutex // guards shares
	shares map[shareKey]*share
}

// shareKey names an endpoint or a client.
type shareKey struct {
	endpoint string
	client   netip.Addr
}

// share is what is being read for one of them. It is forgotten with its last body.
type share struct{ bytes, bodies int64 }

// read returns the whole body as it came, or one of the errors above, or the client's own end. Memory
// grows with what has arrived, never with what a header promises, and never beyond what may come.
func (b *bodyReader) read(w http.ResponseWriter, r *http.Request, endpoint string, client netip.Addr) ([]byte, error) {
	most := b.max
	switch {
	case r.ContentLength > b.max:
		return nil, tooLarge(w, r)
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > 0:
		most = r.ContentLength
	}
	began := time.Now()
	var held *heldBody
	defer func() { b.release(held) }()
	// The one byte more sees the end, or the excess, without growing.
	buf := make([]byte, 0, min(firstRead, most+1))
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), most+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > b.max:
			return nil, tooLarge(w, r)
		case errors.Is(err, io.EOF):
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSlow
		case err != nil:
			return nil, err
		case int64(len(buf)) == r.ContentLength:
			continue // only its end is missing
		}
		// Most bodies are whole by now, and cost nothing of what follows.
		if held == nil {
			held = b.hold(endpoint, client)
			n = len(buf)
		}
		if err := b.count(held, int64(n)); err != nil {
			return nil, err
		}
		web.SetReadDeadline(w, began.Add(b.grace+time.Duration(len(buf))*time.Second/minRate))
	}
}

func tooLarge(w http.ResponseWriter, r *http.Request) error {
	web.SetReadDeadline(w, time.Now().Add(discardTimeout))
	web.Discard(r)
	return errTooLarge
}

// heldBody is a body that is being read, in the books of its endpoint and its client.
type heldBody struct {
	keys   [2]shareKey
	shares [2]*share
	bytes  int64
}

// hold opens the books for a body.
func (b *bodyReader) hold(endpoint string, client netip.Addr) *heldBody {
	if client.Is6() {
		prefix, _ := client.Prefix(64) // of which one customer of a network has all addresses
		client = prefix.Addr()
	}
	h := &heldBody{keys: [2]shareKey{{endpoint: endpoint}, {client: client}}}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shares == nil {
		b.shares = make(map[shareKey]*share)
	}
	for i, key := range h.keys {
		s := b.shares[key]
		if s == nil {
			s = &share{}
			b.shares[key] = s
		}
		s.bodies++
		h.shares[i] = s
	}
	return h
}

// count adds bytes that have arrived, and says why there must not be more of them.
func (b *bodyReader) count(h *heldBody, n int64) error {
	h.bytes += n
	all := b.reading.Add(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	over := false
	for _, s := range h.shares {
		s.bytes += n
		over = over || s.bytes > b.budget/shareOf
	}
	switch {
	case all > b.budget:
		return errCrowded
	case over:
		return errShare
	}
	return nil
}

// release closes the books; nil were never opened.
func (b *bodyReader) release(h *heldBody) {
	if h == nil {
		return
	}
	b.reading.Add(-h.bytes)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range h.shares {
		s.bytes -= h.bytes
		if s.bodies--; s.bodies == 0 {
			delete(b.shares, h.keys[i])
		}
	}
}
