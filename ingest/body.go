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

// Limits of reading request bodies.
const (
	// maxReadingBytes limits the received bytes of all bodies that are being read at the same time. Buffers grow by
	// doubling, so they hold at most twice as much. Records that wait in the producer's buffer are not part of it.
	maxReadingBytes = 512 << 20
	// shareDivisor limits one endpoint, and one client, to an eighth of maxReadingBytes. Up to seven of them that stall
	// leave room for others.
	shareDivisor = 8
	// initialBuffer is the buffer of a body of which nothing has arrived. No Content-Length makes it larger.
	initialBuffer = 4 << 10
	// After bodyGrace, long enough for a few lost packets, a body must arrive at minRate bytes per second.
	bodyGrace = 5 * time.Second
	minRate   = 16 << 10
	// discardTimeout limits how long the rest of a body that is too large is read and discarded.
	discardTimeout = 30 * time.Second
)

var (
	errTooLarge   = errors.New("body is too large")
	errSlow       = errors.New("body did not arrive in time")
	errReadBudget = errors.New("too many bodies are being read")
	errReadShare  = errors.New("too much is being read for one endpoint or client")
)

// bodyReader reads request bodies within the limits above.
type bodyReader struct {
	maxBytes     int64
	budget       int64         // bytes of all bodies together
	grace        time.Duration // as bodyGrace; the Front has set it as the first read deadline
	readingBytes atomic.Int64  // of all tracked bodies

	mu     sync.Mutex // guards shares
	shares map[shareKey]*share
}

// shareKey identifies an endpoint or a client; the other field is empty.
type shareKey struct {
	endpoint string
	client   netip.Addr
}

// share counts the bodies that are being read for one endpoint or client. It is deleted with the last one.
type share struct{ bytes, bodies int64 }

// read returns the whole body byte for byte, one of the errors above, or the error of the connection. The buffer grows
// with the received bytes, never with Content-Length. It holds at most the smaller of Content-Length and maxBytes, and
// one byte more.
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
	// One more byte: the read that finds the end of the body, or that it is too large, needs no larger buffer.
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
			continue // all bytes are here; the next read returns io.EOF
		}
		// Most bodies are complete after the first read and are not tracked.
		if held == nil {
			held = b.track(endpoint, client)
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

// trackedBody is a body that is being read and counts towards the shares of its endpoint and its client.
type trackedBody struct {
	keys   [2]shareKey
	shares [2]*share
	bytes  int64
}

// track starts to count a body for its endpoint and its client.
func (b *bodyReader) track(endpoint string, client netip.Addr) *trackedBody {
	h := &trackedBody{keys: [2]shareKey{{endpoint: endpoint}, {client: web.NetworkOf(client)}}}
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

// addBytes counts n received bytes and returns an error when a limit is exceeded.
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

// release stops counting a body; nil was never tracked.
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
