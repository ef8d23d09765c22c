package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of reading request bodies. How long one may take is the business of web.Front.
const (
	// maxReading bounds the bytes of all bodies that are being read at once, beyond what is in the log's buffer.
	maxReading = 512 << 20
	// firstRead is what is set aside for a body before any of it was seen: no header makes us allocate more.
	firstRead = 4 << 10
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
// grows with what has arrived, never with what a header promises, and never beyond what may come.
func (b *bodyReader) read(r *http.Request) ([]byte, error) {
	most := b.max
	switch {
	case r.ContentLength > b.max:
		web.Discard(r)
		return nil, errTooLarge
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > 0:
		most = r.ContentLength
	}
	var held int64
	defer func() { b.reading.Add(-held) }()
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			// The one byte more sees the end, or the excess, without growing.
			grown := make([]byte, len(buf), min(max(2*int64(cap(buf)), firstRead), most+1))
			copy(grown, buf)
			buf = grown
			more := int64(cap(buf)) - held
			held += more
			if b.reading.Add(more) > maxReading {
				return nil, errCrowded
			}
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > b.max:
			web.Discard(r)
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
