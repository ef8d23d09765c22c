package drain

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/secrets"
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

// Errors of reading a body, as the sender gets them.
var (
	errTooLarge = intake.TooLarge("the body is larger than %d MiB, or %d MiB of gzip; send fewer lines in each request",
		maxBody>>20, maxCompressed>>20)
	errExpanded = intake.TooLarge(
		"the body is larger than %d MiB when it is decompressed; send fewer lines in each request", maxScanned>>20)
	errCorrupt = web.Invalid("", "the gzip data of the body is corrupt or incomplete; send it again")
	errSlow    = &web.Error{Status: http.StatusRequestTimeout, Type: web.Timeout, Message: fmt.Sprintf(
		"the body did not arrive in time, at %d KiB a second and within %d s; send fewer lines in each request",
		minRate>>10, int(maxTime.Seconds()))}
	errOutOfBytes = intake.RateLimited(time.Second,
		"the drain takes at most %d MiB a second; send the lines again after a second", maxBytesPerSecond>>20)
	errBusy = web.ServiceUnavailable(nil, "this node scans as many bodies as it can; send the lines again")
)

// scan reads the whole body through the scanner. It returns what it has read and the hash of the scanned bytes, which
// are the same when the client sends the lines again, however it compresses them.
func (d *Drain) scan(w http.ResponseWriter, r *http.Request, in *slot, found *hits) (
	got received, body [sha256.Size]byte, err error) {
	of := found.of
	if text := strings.Join(r.Header.Values("Content-Encoding"), ","); text != "" &&
		!strings.EqualFold(text, "gzip") && !strings.EqualFold(text, "identity") {
		return got, body, &web.Error{Status: http.StatusUnsupportedMediaType, Type: web.InvalidRequest,
			Param: "content-encoding", Message: "must be gzip or identity"}
	}
	wire := &wireReader{w: w, body: r.Body, began: time.Now(), most: maxBody, left: maxScanned, signed: of.signature}
	if r.ContentLength > maxBody {
		wire.err = errTooLarge
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxTime)
	defer cancel()
	wire.pace = func(n int) error { return d.pace(ctx, in.drain, n, wire) }
	wire.turn = &turn{in: in, done: ctx.Done(), waited: wire.addWait}
	defer wire.turn.give()
	sum := sha256.New()
	framed := of.platform == leak.PlatformHeroku
	joined := newJoiner(of, found.scanner, framed)
	stream := found.scanner.NewStream(func(f secrets.Found) bool {
		joined.known(f)
		return found.add(f)
	})
	defer func() {
		joined.clear()
		stream.Stop()
		_ = stream.Close() // it has nothing left to scan
	}()
	lines := &lineCounter{framed: framed}
	sinks := io.MultiWriter(joined, stream, sum, lines)
	head := false // whether the first bytes have been seen
	decode := expand
	if of.platform == leak.PlatformFirehose {
		decode = func(wire *wireReader, write func([]byte) error) error { return expandFirehose(of, wire, write) }
	}
	err = decode(wire, func(p []byte) error {
		if !head && wire.compressed {
			of.detectLogpush(string(p[:min(len(p), maxLogpushHead)]))
		}
		head = true
		if _, err := sinks.Write(p); err != nil {
			return err
		}
		if err := wire.pace(found.takeUnpaid() * matchCost); err != nil {
			return err
		}
		return wire.turn.share()
	})
	if err == nil {
		if err = stream.Close(); found.err == nil {
			joined.close(found.add)
		}
	}
	if err == nil {
		err = wire.pace(found.takeUnpaid() * matchCost)
	}
	got.Lines, got.Bytes = lines.count(), lines.bytes
	if err != nil {
		return got, body, bodyError(r, err)
	}
	return got, [sha256.Size]byte(sum.Sum(nil)), nil
}

// maxLogpushHead is how much of a body is read for its platform.
const maxLogpushHead = 4 << 10

// Bytes of a body that are buffered at a time: of the connection, because the request waits for its turn after each
// read of it, and of what is decompressed.
const (
	wireBuffer = 32 << 10
	bufferSize = 4 << 10
)

// readers are the buffers of a request for reading its body.
type readers struct {
	wire, inner, record *bufio.Reader
	outer, deep         *gzip.Reader
	short               bytes.Reader
	decoded             [bufferSize]byte // what short reads
	chunk               [32 << 10]byte
}

var readerPool = sync.Pool{New: func() any {
	return &readers{
		wire:  bufio.NewReaderSize(nil, wireBuffer),
		inner: bufio.NewReaderSize(nil, bufferSize), record: bufio.NewReader(nil),
		outer: new(gzip.Reader), deep: new(gzip.Reader),
	}
}}

func takeReaders(wire *wireReader) *readers {
	b := readerPool.Get().(*readers)
	b.wire.Reset(wire)
	return b
}

func (b *readers) release() {
	for _, r := range []*bufio.Reader{b.wire, b.inner, b.record} {
		r.Reset(nil)
	}
	clear(b.chunk[:]) // they hold lines
	clear(b.decoded[:])
	readerPool.Put(b)
}

// open returns the body, decompressed if it is gzip.
func (b *readers) open(wire *wireReader) (*bufio.Reader, error) {
	if !isGzip(b.wire) {
		return b.wire, nil
	}
	wire.limit(maxCompressed)
	if err := b.outer.Reset(b.wire); err != nil {
		return nil, wire.reason(err)
	}
	b.inner.Reset(wire.inflate(b.outer))
	wire.compressed = true
	return b.inner, nil
}

// expand passes the body on in pieces, decompressed where it is gzip: around lines, or around a file that is gzip
// itself. What is compressed once more is passed on as it is.
func expand(wire *wireReader, write func([]byte) error) error {
	b := takeReaders(wire)
	defer b.release()
	opened, err := b.open(wire)
	if err != nil {
		return err
	}
	var from io.Reader = opened
	if wire.compressed && isGzip(opened) {
		if err := b.deep.Reset(opened); err != nil {
			return wire.reason(err)
		}
		from = wire.inflate(b.deep)
	}
	for {
		n, err := from.Read(b.chunk[:])
		if n > 0 {
			if err := write(b.chunk[:n]); err != nil {
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

// budgetReader bounds the bytes of all decompressed readers of a body together, and takes the tokens of each.
type budgetReader struct {
	from     io.Reader
	wire     *wireReader
	inflated *budgetReader // the decompressed bytes of these; nil = they are no gzip
	balance  intake.GzipBalance
}

func (r *budgetReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.balance.Out(n)
	if r.wire.left -= int64(n); r.wire.left < 0 {
		return 0, errExpanded
	}
	if err := r.inflated.countInput(n); err != nil {
		return 0, err
	}
	if r.wire.err == nil {
		r.wire.err = r.wire.pace(n)
	}
	if r.wire.err == nil {
		r.wire.err = r.wire.turn.share()
	}
	if r.wire.err != nil {
		return 0, r.wire.err
	}
	return n, err
}

// countInput counts n bytes of gzip that it reads, if there is such a reader.
func (r *budgetReader) countInput(n int) error {
	if r == nil {
		return nil
	}
	return r.balance.In(n)
}

// inflate returns what a gzip reader decompresses of the body, or of the body as it was before compression.
func (r *wireReader) inflate(from io.Reader) io.Reader {
	b := &budgetReader{from: from, wire: r}
	r.setInflated(b)
	return b
}

// setInflated says whose gzip follows; nil = what follows is no gzip.
func (r *wireReader) setInflated(b *budgetReader) {
	if r.compressed && r.inflated != nil {
		r.inflated.inflated = b
	} else {
		r.inflated = b
	}
}

// wireReader reads the body from the connection, within the limits of size and time.
type wireReader struct {
	w     http.ResponseWriter
	body  io.Reader
	began time.Time
	most  int64
	n     int64
	err   error             // the first error that is not io.EOF
	pace  func(n int) error // takes the tokens of n bytes
	left  int64             // bytes that may still come out of gzip
	// compressed says that the body is gzip, whatever its headers say.
	compressed bool
	inflated   *budgetReader // the decompressed bytes; nil = the body is no gzip
	turn       *turn         // given back while the client is waited for
	signed     hash.Hash     // of the body, for its signature; nil if the drain has none
	// complete says that all of the body is there.
	complete bool
	// waited is how long the sender waited for its turn or for tokens: it is not to blame for that.
	waited time.Duration
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
	r.turn.give()
	n, err := r.body.Read(p)
	r.n += int64(n)
	switch {
	case r.n > r.most:
		n, r.err = 0, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.err = errSlow
	case err == nil || errors.Is(err, io.EOF):
		r.complete = err != nil
		r.setDeadline()
	default:
		r.err = err
	}
	if r.err == nil {
		r.err = r.inflated.countInput(n)
	}
	if r.err == nil {
		r.err = r.pace(n)
	}
	if r.err == nil {
		r.err = r.turn.take()
	}
	if errors.Is(r.err, errBusy) {
		n = 0 // without the turn, nothing may be done with them
	}
	if r.signed != nil {
		r.signed.Write(p[:n]) // never fails
	}
	if r.err != nil {
		return n, r.err
	}
	return n, err
}

// setDeadline sets until when the next bytes must arrive. When all are there, net/http still reads: it would cancel the
// request's context at the deadline.
func (r *wireReader) setDeadline() {
	allowed := maxTime
	if !r.complete {
		allowed = min(bodyGrace+time.Duration(r.n)*time.Second/minRate+r.waited, maxTime)
	}
	web.SetReadDeadline(r.w, r.began.Add(allowed))
}

// addWait moves the deadline by what the sender had to wait for.
func (r *wireReader) addWait(d time.Duration) {
	if r.waited += d; d > time.Millisecond {
		r.setDeadline()
	}
}

// reason returns why reading failed: the error of the connection if there is one, else that of the decompression.
func (r *wireReader) reason(err error) error {
	switch {
	case r.err != nil:
		return r.err
	case errors.Is(err, errExpanded), errors.Is(err, intake.ErrEmptyGzip), errors.Is(err, errMalformed):
		return err
	default:
		return errCorrupt
	}
}

// pace takes the tokens of n bytes, and waits for them as long as the body may take.
func (d *Drain) pace(ctx context.Context, drain string, n int, wire *wireReader) error {
	if n == 0 {
		return nil
	}
	for {
		delay := d.deps.Tokens.TakeSharedTokens(limitBytes, drain, n, maxBytesPerSecond)
		if delay <= 0 {
			return nil
		}
		if time.Since(wire.began)+delay > maxTime {
			return errOutOfBytes
		}
		wire.addWait(delay)
		held := wire.turn.held
		wire.turn.give()
		if err := wait.For(ctx, delay); err != nil {
			return err
		}
		if held {
			if err := wire.turn.take(); err != nil {
				return err
			}
		}
	}
}

// bodyError returns the response to an error of reading a body.
func bodyError(r *http.Request, err error) error {
	answer, known := errors.AsType[*web.Error](err)
	switch {
	case errors.Is(err, errTooLarge):
		web.Discard(r)
		return errTooLarge
	case errors.Is(err, intake.ErrEmptyGzip):
		return web.Invalid("", "most of the gzip data of the body stands for nothing; compress the lines in one go")
	case errors.Is(err, errMalformed):
		return web.Invalid("", "%v; send what Firehose sends", err)
	case known:
		return answer
	default:
		return web.Invalid("", "the body did not arrive completely; send it again")
	}
}
