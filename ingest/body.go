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
	// maxReadingBytes bounds the bytes that have arrived of all bodies that are being read at once, beyond what is in the
	// log's buffer. Their memory is at most twice that.
	maxReadingBytes = 512 << 20
	// shareDivisor is the part of it that one endpoint, and one client, may have: eight of them that stall leave nothing
	// to others, fewer do.
	shareDivisor = 8
	// initialBuffer is what is set aside for a body before any of it was seen: no header makes us allocate more.
	initialBuffer = 4 << 10
	// A body must have arrived at minRate bytes a second after bodyGrace, which is long enough for a few lost packets.
	bodyGrace = 5 * time.Second
	minRate   = 16 << 10
	// discardTimeout bounds reading on in a body that is too large, of which nothing is kept.
	discardTimeout = 30 * time.Second
)

var (
	errTooLarge   = errors.New("body is too large")
	errSlow       = errors.New("body did not arrive in time")
	errReadBudget = errors.New("too many bodies are being read")
	errReadShare  = errors.New("too much is being read for one endpoint or client")
)

// bodyReader reads bodies within the bounds.
type bodyReader struct {
	maxBytes     int64
	budget       int64
	grace        time.Duration // of which the Front has set the deadline
	readingBytes atomic.Int64  // bytes

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
	most := b.maxBytes
	switch {
	case r.ContentLength > b.maxBytes:
		return nil, tooLarge(w, r)
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > 0:
		most = r.ContentLength
	}
	began := time.Now()
	var held *trackedBody
	defer func() { b.release(held) }()
	// The one byte more sees the end, or the excess, without growing.
	buf := make([]byte, 0, min(initialBuffer, most+1))
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), most+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > b.maxBytes:
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
			held = b.track(endpoint, client)
			n = len(buf)
		}
		if err := b.addBytes(held, int64(n)); err != nil {
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

// trackedBody is a body that is being read, in the books of its endpoint and its client.
type trackedBody struct {
	keys   [2]shareKey
	shares [2]*share
	bytes  int64
}

// hold opens the books for a body.
func (b *bodyReader) track(endpoint string, client netip.Addr) *trackedBody {
	if client.Is6() {
		prefix, _ := client.Prefix(64) // of which one customer of a network has all addresses
		client = prefix.Addr()
	}
	h := &trackedBody{keys: [2]shareKey{{endpoint: endpoint}, {client: client}}}
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
func (b *bodyReader) addBytes(h *trackedBody, n int64) error {
	h.bytes += n
	all := b.readingBytes.Add(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	over := false
	for _, s := range h.shares {
		s.bytes += n
		over = over || s.bytes > b.budget/shareDivisor
	}
	switch {
	case all > b.budget:
		return errReadBudget
	case over:
		return errReadShare
	}
	return nil
}

// release closes the books; nil were never opened.
func (b *bodyReader) release(h *trackedBody) {
	if h == nil {
		return
	}
	b.readingBytes.Add(-h.bytes)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range h.shares {
		s.bytes -= h.bytes
		if s.bodies--; s.bodies == 0 {
			delete(b.shares, h.keys[i])
		}
	}
}
