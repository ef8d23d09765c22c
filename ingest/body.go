package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of reading request bodies.
const (
	// bodyTimeout is how long a body may take to arrive, however slowly.
	bodyTimeout = 30 * time.Second
	// maxReading bounds the bytes of all bodies that are being read at once, beyond what is in the log's buffer.
	maxReading = 512 << 20
	// firstRead is what is set aside for a body before any of it was seen: no header makes us allocate more.
	firstRead = 8 << 10
)

var (
	errTooLarge = errors.New("body is too large")
	errSlow     = errors.New("body did not arrive in time")
	errCrowded  = errors.New("too many bodies are being read")
)

// bodyReader reads bodies within the bounds.
type bodyReader struct {
	max     int64
	reading atomic.Int64
}

// read returns the whole body as it came, or one of the errors above, or the client's own end. Memory
// grows with what has arrived, never with what a header promises.
func (b *bodyReader) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.max {
		return nil, errTooLarge
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(bodyTimeout)); err == nil {
		defer rc.SetReadDeadline(time.Time{}) //nolint:errcheck // the connection is gone then, and the next read says so
	}
	size := int64(firstRead)
	if r.ContentLength > 0 {
		size = min(size, r.ContentLength) + 1 // the one byte more sees the end without growing
	}
	var held int64
	defer func() { b.reading.Add(-held) }()
	buf := []byte(nil)
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, int(max(size, int64(len(buf)))))
			grown := int64(cap(buf)) - held
			held += grown
			if b.reading.Add(grown) > maxReading {
				return nil, errCrowded
			}
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > b.max:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSlow
		case err != nil:
			return nil, err
		}
	}
}
