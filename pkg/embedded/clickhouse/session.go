package clickhouse

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"unsafe"
)

// session is one connection to the engine. It runs one statement at a time and is used for one request, so that nothing
// a statement sets affects the next.
type session struct {
	lib   *binding
	outer unsafe.Pointer
	conn  unsafe.Pointer
}

// param is a value for a {name:Type} placeholder, as ClickHouse's escaped text.
type param struct{ name, value string }

var errConnect = errors.New("libchdb refused the connection")

// open connects with the given arguments. A further connection to the open data directory takes 0.2 ms.
func (b *binding) open(args []string) (*session, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	outer := b.connect(int32(len(args)), arguments(&pin, args))
	if outer == nil {
		return nil, errConnect
	}
	return &session{lib: b, outer: outer, conn: *(*unsafe.Pointer)(outer)}, nil
}

func (s *session) close() { s.lib.closeConn(s.outer) }

// readOnly reports whether the engine's parser classifies the statement as one that only reads.
func (s *session) readOnly(query string) bool {
	const readOnlyClass = 0
	analysis := struct{ size, statements, flags, class uint32 }{size: 16}
	q, n := text(query)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(q)
	pin.Pin(&analysis)
	state := s.lib.classify(s.conn, q, n, nil, 0, unsafe.Pointer(&analysis))
	return state == 0 && analysis.statements == 1 && analysis.class == readOnlyClass
}

type starter func(conn unsafe.Pointer, query *byte, n uintptr, format *byte, formatN uintptr, names, nameNs, values,
	valueNs unsafe.Pointer, params uintptr) unsafe.Pointer

// start passes a statement with its format and parameters to one of the three library functions of this form.
func (s *session) start(f starter, query, format string, params []param) unsafe.Pointer {
	var pin runtime.Pinner
	defer pin.Unpin()
	names, values := make([]string, len(params)), make([]string, len(params))
	for i, p := range params {
		names[i], values[i] = p.name, p.value
	}
	q, qn := text(query)
	fm, fn := text(format)
	pin.Pin(q)
	pin.Pin(fm)
	np, nn := texts(&pin, names)
	vp, vn := texts(&pin, values)
	return f(s.conn, q, qn, fm, fn, np, nn, vp, vn, uintptr(len(params)))
}

// exec runs a statement to its end and returns its output.
func (s *session) exec(query, format string, params []param) ([]byte, error) {
	result := s.start(s.lib.query, query, format, params)
	defer s.lib.resultDestroy(result)
	if message := s.lib.resultError(result); message != "" {
		return nil, parseException(message)
	}
	return s.bytes(result), nil
}

// bytes copies a result from the library's memory.
func (s *session) bytes(result unsafe.Pointer) []byte {
	n := s.lib.resultLength(result)
	if n == 0 {
		return nil
	}
	out := make([]byte, n)
	copy(out, unsafe.Slice((*byte)(s.lib.resultBuffer(result)), n))
	return out
}

// rows is the output of a statement that reads, produced while it is fetched.
type rows struct {
	session *session
	stream  unsafe.Pointer
}

func (s *session) stream(query, format string, params []param) (*rows, error) {
	stream := s.start(s.lib.streamQuery, query, format, params)
	if message := s.lib.resultError(stream); message != "" {
		s.lib.resultDestroy(stream)
		return nil, parseException(message)
	}
	return &rows{session: s, stream: stream}, nil
}

// next returns the next piece of output, io.EOF after the last.
func (r *rows) next() ([]byte, error) {
	lib := r.session.lib
	chunk := lib.fetch(r.session.conn, r.stream)
	if chunk == nil {
		return nil, io.EOF
	}
	defer lib.resultDestroy(chunk)
	if message := lib.resultError(chunk); message != "" {
		return nil, parseException(message)
	}
	data := r.session.bytes(chunk)
	if len(data) == 0 {
		return nil, io.EOF
	}
	return data, nil
}

// close frees the stream; the engine discards what was not fetched.
func (r *rows) close() {
	r.session.lib.cancelQuery(r.session.conn, r.stream)
	r.session.lib.resultDestroy(r.stream)
}

// insert streams body into the table that the statement names. The statement has no FORMAT clause. Nothing may be
// acknowledged before insertDone has returned. If reading the body fails, the insert is cancelled.
func (s *session) insert(query, format string, params []param, body io.Reader, buffer []byte) (
	written uint64, err error) {
	stream := s.start(s.lib.insert, query, format, params)
	defer s.lib.insertDestroy(stream)
	if message := s.lib.insertError(stream); message != "" {
		return 0, parseException(message)
	}
	for {
		n, readErr := fill(buffer, body)
		if n > 0 && s.lib.insertAppend(stream, &buffer[0], uintptr(n)) != 0 {
			message := strings.Clone(s.lib.insertError(stream))
			s.lib.insertCancel(stream)
			return 0, parseException(message)
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			s.lib.insertCancel(stream)
			return 0, readErr
		}
	}
	result := s.lib.insertDone(stream)
	defer s.lib.resultDestroy(result)
	if message := s.lib.resultError(result); message != "" {
		return 0, parseException(message)
	}
	return s.lib.resultRowsWritten(result), nil
}

// fill reads until the buffer is full or the reader fails. io.ReadFull would not do: it reports a body that ends within
// the buffer with io.ErrUnexpectedEOF, and so do bodies whose client broke off.
func fill(buffer []byte, body io.Reader) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = body.Read(buffer[n:])
		n += more
	}
	return n, err
}
