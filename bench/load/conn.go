package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/bench/count"
	"github.com/eventrelay/relay/pkg/wait"
)

// Placeholders of a template.
const (
	markHere   = "{{mark}}"
	numberHere = "{{n}}"
)

const numberWidth = 10 // of {{n}}

// template is a whole request with places for marks and numbers, the events of a batch one after the other.
type template struct {
	address string // host:port
	head    []byte // without Content-Length
	pathAt  int    // where the path begins in head
	body    []byte // of one event, with its line's end
	marks   []int  // where marks are in body
	numbers []int
}

func newTemplate(s Stream) (template, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return template{}, err
	}
	t := template{address: u.Host, body: []byte(s.Body)}
	if u.Port() == "" {
		t.address = net.JoinHostPort(u.Hostname(), "80")
	}
	method := s.Method
	if method == "" {
		method = "POST"
	}
	path := u.RequestURI()
	if len(s.Paths) > 0 {
		path = s.Paths[0]
	}
	t.pathAt = len(method) + 1
	t.head = fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, u.Host)
	for name, value := range s.Header {
		if strings.ContainsAny(name+value, "\r\n") {
			return template{}, fmt.Errorf("header %q holds the end of a line", name)
		}
		t.head = fmt.Appendf(t.head, "%s: %s\r\n", name, value)
	}
	if s.Batch > 0 {
		t.body = append(t.body, '\n')
	}
	// The placeholders become text of the width that they will have.
	t.body, t.marks, t.numbers = places(t.body)
	if len(t.marks) == 0 {
		return template{}, fmt.Errorf("body: there is no %s in it, so nothing could be counted", markHere)
	}
	return t, nil
}

// places widens the placeholders of a text and says where they are.
func places(text []byte) (out []byte, marks, numbers []int) {
	for len(text) > 0 {
		switch {
		case bytes.HasPrefix(text, []byte(markHere)):
			marks = append(marks, len(out))
			out = append(out, make([]byte, count.MarkWidth)...)
			text = text[len(markHere):]
		case bytes.HasPrefix(text, []byte(numberHere)):
			numbers = append(numbers, len(out))
			out = append(out, strings.Repeat("0", numberWidth)...)
			text = text[len(numberHere):]
		default:
			out = append(out, text[0])
			text = text[1:]
		}
	}
	return out, marks, numbers
}

// connection posts one request after the other over a kept-alive connection, dialled when it is needed.
type connection struct {
	s        *stream
	conn     net.Conn
	deadline time.Time
	buf      []byte // the answer
	held     int    // bytes of it that were read

	request       []byte // of events events, patched for each
	events        int64
	marks         []int
	numbers       []int // of the body
	headNumbers   []int // of the head: the first event's
	retryDialling time.Time
}

// Bounds of the time for an answer and for a connection.
const (
	answerTimeout = 30 * time.Second
	dialTimeout   = 5 * time.Second
	dialAgain     = 20 * time.Millisecond // pause after a connection failed
	// maxIdle is how old a connection may be that is used again, shorter than servers leave one open: one that closes it
	// at the very moment of a post leaves that without an answer. Go's client uses none after 90 seconds.
	maxIdle   = time.Minute
	maxAnswer = 4 << 20 // bytes
)

func (s *stream) connection() *connection {
	return &connection{s: s, buf: make([]byte, 4<<10)}
}

func (c *connection) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn, c.held = nil, 0
	}
}

// prepare makes the request of n events.
func (c *connection) prepare(n int64) {
	t := &c.s.request
	c.events, c.marks, c.numbers = n, nil, nil
	head := fmt.Appendf(slices.Clip(t.head), "Content-Length: %d\r\n\r\n", int(n)*len(t.body))
	c.request, _, c.headNumbers = places(head)
	for range n {
		for _, at := range t.marks {
			c.marks = append(c.marks, len(c.request)+at)
		}
		for _, at := range t.numbers {
			c.numbers = append(c.numbers, len(c.request)+at)
		}
		c.request = append(c.request, t.body...)
	}
}

// post sends n events from number first on and notes what became of them.
func (c *connection) post(ctx context.Context, first, n int64, due time.Time) {
	if c.events != n {
		c.prepare(n)
	}
	t := &c.s.request
	mark := count.Mark{Run: c.s.Run, Due: due}
	for i, at := range c.marks {
		mark.Number = first + int64(i/len(t.marks))
		mark.Put(c.request[at:])
	}
	for i, at := range c.numbers {
		putNumber(c.request[at:], first+int64(i/len(t.numbers)))
	}
	for _, at := range c.headNumbers {
		putNumber(c.request[at:], first)
	}
	if paths := c.s.Paths; len(paths) > 0 {
		copy(c.request[t.pathAt:], paths[first/int64(max(c.s.Batch, 1))%int64(len(paths))])
	}
	a, err := c.exchange(ctx)
	if err != nil {
		c.close()
		a = answer{err: err}
	}
	c.s.recordAnswer(first, n, due, a)
}

func putNumber(b []byte, n int64) {
	for i := numberWidth - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// exchange writes the request and reads the answer.
func (c *connection) exchange(ctx context.Context) (answer, error) {
	now := time.Now()
	if c.conn != nil && now.Sub(c.deadline) > maxIdle-answerTimeout {
		c.close()
	}
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return answer{}, err
		}
	}
	// A deadline costs as much as the rest of the bookkeeping together, so it is moved once a second.
	if c.deadline.Sub(now) < answerTimeout-time.Second {
		c.deadline = now.Add(answerTimeout)
		if err := c.conn.SetDeadline(c.deadline); err != nil {
			return answer{}, err
		}
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *connection) dial(ctx context.Context) error {
	if err := wait.For(ctx, time.Until(c.retryDialling)); err != nil {
		return err
	}
	c.retryDialling = time.Now().Add(dialAgain)
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", c.s.request.address)
	if err != nil {
		return err
	}
	c.conn, c.deadline, c.held = conn, time.Time{}, 0
	return nil
}

// answer is what is read of a response; status 0 is none.
type answer struct {
	status int
	failed []int64 // positions in a batch that were refused
	err    error   // why there is none
}

// read reads one response.
func (c *connection) read() (answer, error) {
	for {
		r, err := parse(c.buf[:c.held])
		if err != nil {
			return answer{}, err
		}
		if r.size > 0 {
			a := answer{status: r.status}
			if c.s.Batch > 0 {
				a.failed = failures(r.body)
			}
			c.held = copy(c.buf, c.buf[r.size:c.held])
			if r.last {
				c.close()
			}
			return a, nil
		}
		if c.held == len(c.buf) {
			if c.held >= maxAnswer {
				return answer{}, fmt.Errorf("answer is longer than %d bytes", maxAnswer)
			}
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		n, err := c.conn.Read(c.buf[c.held:])
		if c.held += n; n == 0 && err != nil {
			return answer{}, err
		}
	}
}

// failures are the positions with an error in the answer to a batch.
func failures(body []byte) []int64 {
	if !bytes.Contains(body, []byte(`"error":`)) {
		return nil
	}
	var list struct {
		Data []struct {
			Index int64
			Error json.RawMessage
		}
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var out []int64
	for _, item := range list.Data {
		if item.Error != nil {
			out = append(out, item.Index)
		}
	}
	return out
}

// response is where things are in the text of an answer; size 0 = it is not whole yet.
type response struct {
	size, status int
	body         []byte
	last         bool
}

// parse reads the answer at the start of b. It knows Content-Length, chunks, and answers without a body.
func parse(b []byte) (response, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return response{}, nil
	}
	if end < len("HTTP/1.1 200") || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return response{}, fmt.Errorf("answer is no HTTP/1: %.40q", b)
	}
	var r response
	var err error
	if r.status, err = strconv.Atoi(string(b[9:12])); err != nil || r.status < 100 {
		return response{}, fmt.Errorf("answer has no status: %.40q", b)
	}
	_, fields, _ := bytes.Cut(b[:end], []byte("\r\n"))
	length, chunked := 0, false
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte(":"))
		switch {
		case is(name, "Content-Length"):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return response{}, fmt.Errorf("answer has content length %q", value)
			}
		case is(name, "Transfer-Encoding"):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		case is(name, "Connection"):
			r.last = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
		}
	}
	rest := b[end+4:]
	if chunked {
		return unchunk(r, rest, end+4)
	}
	if len(rest) < length {
		return response{}, nil
	}
	r.body, r.size = rest[:length], end+4+length
	return r, nil
}

func is(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// unchunk reads a chunked body, which begins at offset start of the answer.
func unchunk(r response, rest []byte, start int) (response, error) {
	for at := 0; ; {
		line, _, ok := bytes.Cut(rest[at:], []byte("\r\n"))
		if !ok {
			return response{}, nil
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseInt(string(bytes.TrimSpace(digits)), 16, 32)
		if err != nil || size < 0 {
			return response{}, fmt.Errorf("answer has a chunk of size %q", line)
		}
		at += len(line) + 2
		if len(rest) < at+int(size)+2 {
			return response{}, nil
		}
		if size == 0 { // no trailers are expected
			r.size = start + at + 2
			return r, nil
		}
		r.body = append(r.body, rest[at:at+int(size)]...)
		at += int(size) + 2
	}
}
