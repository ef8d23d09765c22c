package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/tools/bench/count"
)

// Placeholders of a template.
const (
	markPlaceholder   = "{{mark}}"
	numberPlaceholder = "{{n}}"
	textPlaceholder   = "{{text}}"
)

const numberWidth = 10 // of {{n}}

// template is the text of a request with the positions of marks and numbers. The events of a batch follow each other.
type template struct {
	address string      // host:port
	tls     *tls.Config // nil for http
	head    []byte      // without Content-Length
	pathAt  int         // where the path begins in head
	body    []byte      // of one event, with a newline in a batch
	marks   []int       // positions of marks in body
	numbers []int
	textAt  int // position of the text in body; -1: it has none
}

func newTemplate(s Stream) (template, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return template{}, err
	}
	t := template{address: u.Host, body: []byte(s.Body)}
	port := "80"
	if u.Scheme == "https" {
		port, t.tls = "443", &tls.Config{ServerName: u.Hostname()}
	}
	if s.CA != "" && t.tls != nil {
		t.tls.RootCAs = x509.NewCertPool()
		t.tls.RootCAs.AppendCertsFromPEM([]byte(s.CA))
	}
	if u.Port() == "" {
		t.address = net.JoinHostPort(u.Hostname(), port)
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
			return template{}, fmt.Errorf("header %q contains a line break", name)
		}
		t.head = fmt.Appendf(t.head, "%s: %s\r\n", name, value)
	}
	if s.Batch > 0 {
		t.body = append(t.body, '\n')
	}
	// Placeholders are replaced by text of their final width.
	if t.textAt = bytes.Index(t.body, []byte(textPlaceholder)); t.textAt >= 0 {
		if s.TextSize == 0 || bytes.Contains(t.body[:t.textAt], []byte("{{")) {
			return template{}, fmt.Errorf("body: %s must have a size and stand before other placeholders", textPlaceholder)
		}
		room := bytes.Repeat([]byte{' '}, s.TextSize)
		t.body = slices.Replace(t.body, t.textAt, t.textAt+len(textPlaceholder), room...)
	}
	t.body, t.marks, t.numbers = expandPlaceholders(t.body)
	if len(t.marks) == 0 {
		return template{}, fmt.Errorf("body: %s is missing, without it events cannot be counted", markPlaceholder)
	}
	return t, nil
}

// expandPlaceholders widens the placeholders of a text and returns their positions.
func expandPlaceholders(text []byte) (out []byte, marks, numbers []int) {
	for len(text) > 0 {
		switch {
		case bytes.HasPrefix(text, []byte(markPlaceholder)):
			marks = append(marks, len(out))
			out = append(out, make([]byte, count.MarkWidth)...)
			text = text[len(markPlaceholder):]
		case bytes.HasPrefix(text, []byte(numberPlaceholder)):
			numbers = append(numbers, len(out))
			out = append(out, strings.Repeat("0", numberWidth)...)
			text = text[len(numberPlaceholder):]
		default:
			out = append(out, text[0])
			text = text[1:]
		}
	}
	return out, marks, numbers
}

// connection posts one request after the other over a kept-alive connection, which it dials when needed.
type connection struct {
	s        *stream
	conn     net.Conn
	deadline time.Time
	buf      []byte // the answer
	buffered int    // bytes of it that are read

	request     []byte // text of a request of that many events; marks and numbers are overwritten for each post
	events      int64
	marks       []int
	numbers     []int // of the body
	headNumbers []int // of the head: the first event's
	nextDial    time.Time
}

// Time limits of answers and connections.
const (
	answerTimeout = 30 * time.Second
	dialTimeout   = 5 * time.Second
	dialPause     = 20 * time.Millisecond // pause after a connection failed
	// maxConnAge is how long after its last answer a connection is reused. It is shorter than servers' idle timeouts: a
	// post on a connection that the server just closes gets no answer. Go's client uses 90 seconds.
	maxConnAge = time.Minute
	maxAnswer  = 4 << 20 // bytes
)

func (s *stream) connection() *connection {
	return &connection{s: s, buf: make([]byte, 4<<10)}
}

func (c *connection) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn, c.buffered = nil, 0
	}
}

// prepare builds the text of a request of n events.
func (c *connection) prepare(n int64) {
	t := &c.s.request
	c.events, c.marks, c.numbers = n, nil, nil
	head := fmt.Appendf(slices.Clip(t.head), "Content-Length: %d\r\n\r\n", int(n)*len(t.body))
	c.request, _, c.headNumbers = expandPlaceholders(head)
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

// post sends n events from number first on and records the answer.
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
	if t.textAt >= 0 {
		for i := range n {
			c.s.putText(c.request[len(c.request)-int(n-i)*len(t.body)+t.textAt:], first+i)
		}
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
	if err != nil || c.s.Fresh {
		c.close()
	}
	if err != nil {
		a = answer{err: err}
	} else if c.s.Fresh {
		c.nextDial = time.Time{}
	}
	c.s.recordAnswer(first, n, due, a)
}

// putText writes the part of the text that belongs to an event.
func (s *stream) putText(b []byte, number int64) {
	parts := int64(len(s.Text) / s.TextSize)
	copy(b, s.Text[number%parts*int64(s.TextSize):][:s.TextSize])
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
	if c.conn != nil && now.Sub(c.deadline) > maxConnAge-answerTimeout {
		c.close()
	}
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return answer{}, err
		}
	}
	// Setting a deadline is expensive here, so it is moved only once a second.
	if c.deadline.Sub(now) < answerTimeout-time.Second {
		c.deadline = now.Add(answerTimeout)
		if err := c.conn.SetDeadline(c.deadline); err != nil {
			return answer{}, err
		}
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return answer{}, err
	}
	return c.readAnswer()
}

func (c *connection) dial(ctx context.Context) error {
	if err := wait.For(ctx, time.Until(c.nextDial)); err != nil {
		return err
	}
	c.nextDial = time.Now().Add(dialPause)
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", c.s.request.address)
	if err != nil {
		return err
	}
	if cfg := c.s.request.tls; cfg != nil {
		conn = tls.Client(conn, cfg) // the first write performs the handshake
	}
	c.conn, c.deadline, c.buffered = conn, time.Time{}, 0
	return nil
}

// answer is the parsed response to a request; status 0 = there was none.
type answer struct {
	status int
	failed []int64 // positions of refused events in a batch
	err    error   // why there is no response
}

// read reads one response.
func (c *connection) readAnswer() (answer, error) {
	for {
		r, err := parseResponse(c.buf[:c.buffered])
		if err != nil {
			return answer{}, err
		}
		if r.size > 0 {
			a := answer{status: r.status}
			if c.s.Batch > 0 {
				a.failed = failedPositions(r.body)
			}
			c.buffered = copy(c.buf, c.buf[r.size:c.buffered])
			if r.closes {
				c.close()
			}
			return a, nil
		}
		if c.buffered == len(c.buf) {
			if c.buffered >= maxAnswer {
				return answer{}, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
			}
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		n, err := c.conn.Read(c.buf[c.buffered:])
		if c.buffered += n; n == 0 && err != nil {
			return answer{}, err
		}
	}
}

// failedPositions returns the positions of the events with an error in the answer to a batch.
func failedPositions(body []byte) []int64 {
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

// response is a parsed HTTP response; size 0 = it is not complete yet.
type response struct {
	size, status int
	body         []byte
	closes       bool
}

// parseResponse parses the response at the start of b. It supports Content-Length, chunked encoding, and responses
// without a body.
func parseResponse(b []byte) (response, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return response{}, nil
	}
	if end < len("HTTP/1.1 200") || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return response{}, fmt.Errorf("the answer is not HTTP/1: %.40q", b)
	}
	var r response
	var err error
	if r.status, err = strconv.Atoi(string(b[9:12])); err != nil || r.status < 100 {
		return response{}, fmt.Errorf("the answer has no status: %.40q", b)
	}
	_, fields, _ := bytes.Cut(b[:end], []byte("\r\n"))
	length, chunked := 0, false
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte(":"))
		switch {
		case equalHeader(name, "Content-Length"):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return response{}, fmt.Errorf("the answer has an invalid content length %q", value)
			}
		case equalHeader(name, "Transfer-Encoding"):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		case equalHeader(name, "Connection"):
			r.closes = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
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

func equalHeader(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// unchunk parses a chunked body, which begins at offset start of the response.
func unchunk(r response, rest []byte, start int) (response, error) {
	for at := 0; ; {
		line, _, ok := bytes.Cut(rest[at:], []byte("\r\n"))
		if !ok {
			return response{}, nil
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseInt(string(bytes.TrimSpace(digits)), 16, 32)
		if err != nil || size < 0 {
			return response{}, fmt.Errorf("the answer has a chunk of invalid size %q", line)
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
