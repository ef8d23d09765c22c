package drain

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of one body.
const (
	maxBody       = 64 << 20 // bytes on the wire
	maxCompressed = 10 << 20 // bytes on the wire of a gzip body
	maxScanned    = 64 << 20 // bytes after decompression, those of both levels together
	// After bodyGrace, long enough for a few lost packets, a body must arrive at minRate bytes per second, and be there
	// within maxTime, whatever its size.
	bodyGrace = 5 * time.Second
	minRate   = 64 << 10
	maxTime   = 2 * time.Minute
)

// Requests that are being read at the same time. Each holds about 250 KB.
const (
	maxRunning        = 256 // of this node
	maxRunningOfDrain = 32
)

var (
	errTooLarge   = errors.New("the body is too large")
	errExpanded   = errors.New("the decompressed body is too large")
	errCorrupt    = errors.New("the gzip data is corrupt")
	errSlow       = errors.New("the body did not arrive in time")
	errOutOfBytes = errors.New("the drain's rate is used up")
)

// slots bounds the requests that are being read.
type slots struct {
	mu      sync.Mutex // guards what follows
	byDrain map[string]int
	all     int
}

// enter takes a slot, or returns the 429 of the drain or the 503 of the node.
func (s *slots) enter(drain string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byDrain[drain] >= maxRunningOfDrain:
		return nil, rateLimited(time.Second, fmt.Sprintf(
			"takes at most %d requests at the same time; send more lines in each", maxRunningOfDrain))
	case s.all >= maxRunning:
		return nil, web.ServiceUnavailable(nil, "this node reads as many bodies as it can; send the lines again")
	}
	s.all++
	s.byDrain[drain]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.byDrain[drain]--; s.byDrain[drain] == 0 {
			delete(s.byDrain, drain)
		}
	}, nil
}

// scan reads the whole body through the scanner. It returns what it has read and the hash of the scanned bytes, which
// are the same when the client sends the lines again, however it compresses them.
func (d *Drain) scan(w http.ResponseWriter, r *http.Request, to *config.Drain, found *hits) (
	got received, body [sha256.Size]byte, err error) {
	if text := strings.Join(r.Header.Values("Content-Encoding"), ","); text != "" &&
		!strings.EqualFold(text, "gzip") && !strings.EqualFold(text, "identity") {
		return got, body, &web.Error{Status: http.StatusUnsupportedMediaType, Type: web.InvalidRequest,
			Param: "content-encoding", Message: "must be gzip or identity"}
	}
	wire := &wireReader{w: w, body: r.Body, began: time.Now(), most: maxBody}
	if r.ContentLength > maxBody {
		wire.err = errTooLarge
	}
	hash := sha256.New()
	scanned := d.deps.Scanner.NewStream(found.add)
	lines := &lineCounter{}
	sinks := io.MultiWriter(scanned, hash, lines)
	pace := func(n int) error { return d.pace(r.Context(), to.ID, n, wire.began) }
	err = expand(wire, sinks, pace)
	if closed := scanned.Close(); err == nil {
		err = closed
	}
	got.Lines, got.Bytes = lines.count(), lines.bytes
	if err != nil {
		return got, body, bodyError(r, err)
	}
	return got, [sha256.Size]byte(hash.Sum(nil)), nil
}

// readers are the buffers of a request for reading its body.
type readers struct {
	wire, inner *bufio.Reader
	outer, deep *gzip.Reader
	chunk       [32 << 10]byte
}

var readerPool = sync.Pool{New: func() any {
	return &readers{
		wire: bufio.NewReader(nil), inner: bufio.NewReader(nil), outer: new(gzip.Reader), deep: new(gzip.Reader),
	}
}}

// expand copies the body to a writer, decompressed where it is gzip: around lines, or around a file that is gzip
// itself. What is compressed once more is copied as it is.
func expand(wire *wireReader, to io.Writer, pace func(n int) error) error {
	b := readerPool.Get().(*readers)
	defer func() {
		b.wire.Reset(nil)
		b.inner.Reset(nil)
		clear(b.chunk[:]) // it holds lines
		readerPool.Put(b)
	}()
	b.wire.Reset(wire)
	var from io.Reader = b.wire
	budget := &budget{left: maxScanned}
	if isGzip(b.wire) {
		wire.limit(maxCompressed)
		if err := b.outer.Reset(b.wire); err != nil {
			return wire.reason(err)
		}
		b.inner.Reset(budget.reader(b.outer))
		if from = b.inner; isGzip(b.inner) {
			if err := b.deep.Reset(b.inner); err != nil {
				return wire.reason(err)
			}
			from = budget.reader(b.deep)
		}
	}
	for {
		n, err := from.Read(b.chunk[:])
		if n > 0 {
			if err := pace(n); err != nil {
				return err
			}
			if _, err := to.Write(b.chunk[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wire.reason(err)
		}
	}
}

// isGzip reports whether what follows begins like a gzip member (RFC 1952).
func isGzip(b *bufio.Reader) bool {
	head, _ := b.Peek(3) // the next read returns the error
	return bytes.Equal(head, []byte{0x1f, 0x8b, 8})
}

// budget bounds the bytes of several readers together.
type budget struct{ left int64 }

func (b *budget) reader(from io.Reader) io.Reader { return &budgetReader{b, from} }

type budgetReader struct {
	*budget
	from io.Reader
}

func (r *budgetReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, errExpanded
	}
	return n, err
}

// wireReader reads the body from the connection, within the limits of size and time.
type wireReader struct {
	w     http.ResponseWriter
	body  io.Reader
	began time.Time
	most  int64
	n     int64
	err   error // the first error that is not io.EOF
}

// limit lowers the bound of the body.
func (r *wireReader) limit(most int64) {
	if r.most = most; r.n > most {
		r.err = errTooLarge
	}
}

func (r *wireReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.body.Read(p)
	r.n += int64(n)
	switch {
	case r.n > r.most:
		n, r.err = 0, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.err = errSlow
	case err == nil:
		allowed := min(bodyGrace+time.Duration(r.n)*time.Second/minRate, maxTime)
		web.SetReadDeadline(r.w, r.began.Add(allowed))
	case !errors.Is(err, io.EOF):
		r.err = err
	}
	if r.err != nil {
		return n, r.err
	}
	return n, err
}

// reason returns why reading failed: the error of the connection if there is one, else that of the decompression.
func (r *wireReader) reason(err error) error {
	switch {
	case r.err != nil:
		return r.err
	case errors.Is(err, errExpanded):
		return err
	default:
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
}

// pace takes the tokens of n bytes, and waits for them as long as the body may take.
func (d *Drain) pace(ctx context.Context, drain string, n int, began time.Time) error {
	for {
		delay := d.deps.Tokens.TakeSharedTokens(limitBytes, drain, n, maxBytesPerSecond)
		if delay <= 0 {
			return nil
		}
		if time.Since(began)+delay > maxTime {
			return errOutOfBytes
		}
		if err := wait.For(ctx, delay); err != nil {
			return err
		}
	}
}

// lineCounter counts lines and bytes.
type lineCounter struct {
	lines, bytes uint64
	last         byte
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if len(p) > 0 {
		c.lines += uint64(bytes.Count(p, []byte{'\n'}))
		c.bytes += uint64(len(p))
		c.last = p[len(p)-1]
	}
	return len(p), nil
}

// count returns the number of lines; the last one need not end with a newline.
func (c *lineCounter) count() uint64 {
	if c.bytes > 0 && c.last != '\n' {
		return c.lines + 1
	}
	return c.lines
}

// bodyError maps an error of reading a body to a response.
func bodyError(r *http.Request, err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		web.Discard(r)
		return tooLarge("the body is larger than %d MiB, or %d MiB of gzip; send fewer lines in each request",
			maxBody>>20, maxCompressed>>20)
	case errors.Is(err, errExpanded):
		return tooLarge("the body is larger than %d MiB when it is decompressed; send fewer lines in each request",
			maxScanned>>20)
	case errors.Is(err, errSlow):
		return &web.Error{Status: http.StatusRequestTimeout, Type: web.Timeout, Message: fmt.Sprintf(
			"the body did not arrive in time, at %d KiB a second and within %d s; send fewer lines in each request",
			minRate>>10, int(maxTime.Seconds()))}
	case errors.Is(err, errOutOfBytes):
		return rateLimited(time.Second,
			fmt.Sprintf("takes at most %d MiB a second; send the lines again after a second", maxBytesPerSecond>>20))
	case errors.Is(err, errCorrupt):
		return web.Invalid("", "the gzip data of the body is corrupt or incomplete; send it again")
	default:
		return web.Invalid("", "the body did not arrive completely; send it again")
	}
}

func tooLarge(format string, args ...any) error {
	return &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge,
		Message: fmt.Sprintf(format, args...)}
}
