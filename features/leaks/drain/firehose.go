package drain

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errMalformed means that a body is not what its platform sends.
var errMalformed = errors.New("the body is malformed")

// Bounds of the JSON around Firehose's records.
const (
	maxMemberName = 64 // bytes
	maxSkipDepth  = 16 // of values that are skipped
	// maxRecordHead is how much of a record is read for its log group.
	maxRecordHead = 1 << 10
)

// firehose reads a body of Firehose, {"requestId":…,"timestamp":…,"records":[{"data":"<base64>"},…]}, and passes the
// decoded records on, each with a newline after it. A record may be gzip, as those of CloudWatch are. It needs as much
// memory for a large body as for a small one.
type firehose struct {
	of    *request
	b     *readers
	wire  *wireReader
	r     *bufio.Reader // the JSON
	write func([]byte) error
	n     int   // bytes in b.chunk
	total int64 // bytes passed on
}

// expandFirehose passes the records of a body on.
func expandFirehose(of *request, wire *wireReader, write func([]byte) error) error {
	b := takeReaders(wire)
	defer b.release()
	from, err := b.open(wire)
	if err != nil {
		return err
	}
	f := &firehose{of: of, b: b, wire: wire, r: from, write: write}
	err = f.object(f.member)
	if err == nil {
		err = f.end()
	}
	if err == nil {
		err = f.flush()
	}
	return err
}

// member reads a member of the body.
func (f *firehose) member(name string) error {
	switch name {
	case "records":
		return f.array(func() error {
			return f.object(func(name string) error {
				if name == "data" {
					return f.record()
				}
				return f.skip(0)
			})
		})
	case "requestId":
		id, err := f.text(maxDelivery)
		if f.of.delivery == "" {
			f.of.delivery = id
		}
		return err
	default:
		return f.skip(0)
	}
}

// record decodes one record and passes it on.
func (f *firehose) record() error {
	if err := f.expect('"'); err != nil {
		return err
	}
	text := &stringReader{r: f.r}
	if decoded, ok, err := f.shortRecord(); err != nil {
		return err
	} else if ok {
		f.b.short.Reset(decoded)
		f.b.record.Reset(&f.b.short)
	} else {
		f.b.record.Reset(base64.NewDecoder(base64.StdEncoding, &paddedReader{from: text}))
	}
	var from io.Reader = f.b.record
	compressed := isGzip(f.b.record)
	if compressed {
		if err := f.b.deep.Reset(f.b.record); err != nil {
			return f.recordError(text, compressed, err)
		}
		from = f.wire.inflate(f.b.deep)
		defer f.wire.setInflated(nil)
	}
	if len(f.b.chunk)-f.n < maxRecordHead {
		if err := f.flush(); err != nil {
			return err
		}
	}
	began := f.n
	inHead := true
	for {
		n, err := from.Read(f.b.chunk[f.n:])
		f.n += n
		if inHead && (err != nil || f.n-began >= maxRecordHead) {
			inHead = false
			f.of.origins.add(f.total+int64(began), logGroup(f.b.chunk[began:min(f.n, began+maxRecordHead)]))
		}
		if f.n == len(f.b.chunk) {
			if err := f.flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f.recordError(text, compressed, err)
		}
	}
	f.b.chunk[f.n] = '\n'
	if f.n++; f.n == len(f.b.chunk) {
		return f.flush()
	}
	return nil
}

// shortRecord decodes a record that is buffered up to its last quote. Most are: a decoder of their own would take ten
// times as long. It reports false, and has read nothing, if the record is longer or has escapes.
func (f *firehose) shortRecord() (decoded []byte, ok bool, err error) {
	text, _ := f.r.Peek(f.r.Buffered()) // it is buffered
	end := bytes.IndexByte(text, '"')
	if end < 0 || end > len(f.b.decoded) || bytes.IndexByte(text[:end], '\\') >= 0 {
		return nil, false, nil
	}
	n, err := base64.StdEncoding.Decode(f.b.decoded[:], text[:end])
	if err != nil {
		return nil, false, fmt.Errorf("%w: a record is not base64", errMalformed)
	}
	_, _ = f.r.Discard(end + 1)
	return f.b.decoded[:n], true, nil
}

// logGroup returns the log group that a record of CloudWatch begins with; empty if it is none.
func logGroup(head []byte) string {
	if !strings.HasPrefix(string(head), `{"`) {
		return ""
	}
	if i := strings.Index(string(head), `"logEvents"`); i >= 0 {
		head = head[:i]
	}
	return value(head, "logGroup")
}

// recordError returns why a record cannot be decoded.
func (f *firehose) recordError(text *stringReader, compressed bool, err error) error {
	switch {
	case text.err != nil:
		return f.failed(text.err)
	case f.wire.err != nil || errors.Is(err, errExpanded) || compressed:
		return f.wire.reason(err)
	default:
		return fmt.Errorf("%w: a record is not base64", errMalformed)
	}
}

func (f *firehose) flush() error {
	n := f.n
	f.n = 0
	f.total += int64(n)
	if n == 0 {
		return nil
	}
	return f.write(f.b.chunk[:n])
}

// failed returns why the JSON cannot be read.
func (f *firehose) failed(err error) error {
	switch {
	case f.wire.err == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Errorf("%w: it ends too early", errMalformed)
	case errors.Is(err, errMalformed):
		return err
	default:
		return f.wire.reason(err)
	}
}

// readByte returns the next byte that is no white space.
func (f *firehose) readByte() (byte, error) {
	for {
		if c, err := f.r.ReadByte(); err != nil || strings.IndexByte(" \t\r\n", c) < 0 {
			return c, err
		}
	}
}

// next is readByte inside the JSON.
func (f *firehose) next() (byte, error) {
	c, err := f.readByte()
	if err != nil {
		err = f.failed(err)
	}
	return c, err
}

// end expects nothing more.
func (f *firehose) end() error {
	switch _, err := f.readByte(); {
	case err == nil:
		return fmt.Errorf("%w: something follows the JSON object", errMalformed)
	case errors.Is(err, io.EOF) && f.wire.err == nil:
		return nil
	default:
		return f.failed(err)
	}
}

func (f *firehose) expect(want byte) error {
	c, err := f.next()
	if err == nil && c != want {
		err = fmt.Errorf("%w: %q where %q belongs", errMalformed, c, want)
	}
	return err
}

// object reads an object; member reads the value behind each name.
func (f *firehose) object(member func(name string) error) error {
	return f.list('{', '}', func() error {
		name, err := f.text(maxMemberName)
		if err == nil {
			err = f.expect(':')
		}
		if err != nil {
			return err
		}
		return member(name)
	})
}

// array reads an array; element reads each value.
func (f *firehose) array(element func() error) error { return f.list('[', ']', element) }

// list reads elements with commas between them.
func (f *firehose) list(from, to byte, element func() error) error {
	if err := f.expect(from); err != nil {
		return err
	}
	c, err := f.next()
	if err != nil || c == to {
		return err
	}
	for {
		_ = f.r.UnreadByte() // next has read it
		if err := element(); err != nil {
			return err
		}
		switch c, err = f.next(); {
		case err != nil || c == to:
			return err
		case c != ',':
			return fmt.Errorf("%w: %q where ',' belongs", errMalformed, c)
		}
		if _, err = f.next(); err != nil {
			return err
		}
	}
}

// text reads a string of at most that many bytes.
func (f *firehose) text(most int64) (string, error) {
	if err := f.expect('"'); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(&stringReader{r: f.r}, most+1))
	switch {
	case err != nil:
		return "", f.failed(err)
	case int64(len(b)) > most:
		return "", fmt.Errorf("%w: a name or id is longer than %d bytes", errMalformed, most)
	}
	return string(b), nil
}

// skip reads a value that does not matter.
func (f *firehose) skip(depth int) error {
	c, err := f.next()
	if err != nil {
		return err
	}
	if depth > maxSkipDepth {
		return fmt.Errorf("%w: it is nested too deeply", errMalformed)
	}
	switch c {
	case '"':
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{&stringReader{r: f.r}}); err != nil {
			return f.failed(err)
		}
		return nil
	case '{', '[':
		_ = f.r.UnreadByte() // next has read it
		if c == '{' {
			return f.object(func(string) error { return f.skip(depth + 1) })
		}
		return f.array(func() error { return f.skip(depth + 1) })
	}
	for { // a number or a word
		c, err := f.r.ReadByte()
		if err != nil {
			return f.failed(err)
		}
		if strings.IndexByte(",]} \t\r\n", c) >= 0 {
			return f.r.UnreadByte()
		}
	}
}

// paddedReader refuses base64 behind its padding. The decoder would accept it or not, depending on how reads cut it.
type paddedReader struct {
	from  io.Reader
	ended bool
}

func (r *paddedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	for _, c := range p[:n] {
		if r.ended && c != '=' && c != '\r' && c != '\n' {
			return 0, errMalformed
		}
		r.ended = r.ended || c == '='
	}
	return n, err
}

// stringReader reads a JSON string whose first quote has been read, up to its last one.
type stringReader struct {
	r     *bufio.Reader
	ended bool
	err   error // the first error that is not the end of the string
}

func (s *stringReader) Read(p []byte) (int, error) {
	for n := 0; ; {
		switch {
		case s.ended:
			return n, io.EOF
		case s.err != nil:
			return n, s.err
		case n == len(p) || n > 0 && s.r.Buffered() == 0:
			return n, nil
		}
		if _, s.err = s.r.Peek(1); s.err != nil {
			if errors.Is(s.err, io.EOF) {
				s.err = io.ErrUnexpectedEOF
			}
			continue
		}
		plain, _ := s.r.Peek(min(s.r.Buffered(), len(p)-n))
		stop := bytes.IndexByte(plain, '"')
		if stop >= 0 {
			plain = plain[:stop]
		}
		if i := bytes.IndexByte(plain, '\\'); i >= 0 {
			plain, stop = plain[:i], i
		}
		n += copy(p[n:], plain)
		_, _ = s.r.Discard(len(plain)) // they are buffered
		switch {
		case stop < 0:
		case n == len(p):
			return n, nil
		default:
			if c := s.special(); c != 0 {
				p[n] = c
				n++
			}
		}
	}
}

// special reads a quote, which ends the string, or an escape, whose byte it returns. Base64 has no others than those of
// ASCII; a byte that is none becomes one that no base64 has.
func (s *stringReader) special() byte {
	c, _ := s.r.ReadByte() // it is buffered
	if s.ended = c == '"'; s.ended {
		return 0
	}
	if c, s.err = s.r.ReadByte(); s.err != nil || c != 'u' {
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			return "\b\f\n\r\t"[i]
		}
		return c
	}
	var digits [4]byte
	if _, s.err = io.ReadFull(s.r, digits[:]); s.err != nil {
		return 0
	}
	code, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil || code == 0 || code > 0x7f {
		return '?'
	}
	return byte(code)
}

// origins says which application wrote which part of a body, where its lines do not say so: one log group for each
// record of CloudWatch. It keeps those whose text may still be reported.
type origins struct {
	list []origin
	most int // length of list at which it forgets
}

type origin struct {
	from int64 // offset in the decoded body
	name string
}

// originReach is how far behind the newest byte a secret can be that is not reported yet, in bytes.
const originReach = 256 << 10

func (o *origins) add(from int64, name string) {
	if n := len(o.list); n > 0 && o.list[n-1].name == name || n == 0 && name == "" {
		return
	}
	o.list = append(o.list, origin{from, name})
	if len(o.list) > max(o.most, 64) {
		o.list = slices.Delete(o.list, 0, max(0, o.index(from-originReach)))
		o.most = 2 * len(o.list)
	}
}

// index returns the index of the origin of the byte with that offset; -1 = it is not known.
func (o *origins) index(offset int64) int {
	i, found := slices.BinarySearchFunc(o.list, offset, func(x origin, at int64) int { return cmp.Compare(x.from, at) })
	if found {
		return i
	}
	return i - 1
}

// at returns the application that wrote the byte with that offset; empty if it is not known.
func (o *origins) at(offset int64) string {
	if i := o.index(offset); i >= 0 {
		return o.list[i].name
	}
	return ""
}
