package sink

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
)

// Limits of a request in bytes. Longer requests are malformed.
const (
	maxHead = 64 << 10
	maxBody = 16 << 20
)

// answers are the complete responses by status.
var answers = map[int][]byte{
	200: []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
	400: []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
	411: []byte("HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
	500: []byte("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"),
	503: []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
}

// serve answers connections until ctx ends.
func (s *Sink) serve(ctx context.Context, l net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		wg.Go(func() {
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			s.serveConn(ctx, c)
		})
	}
}

// serveConn answers the requests of one connection, one after the other.
//
// A request that fits into the buffer of 8 KiB, as nearly all do, costs one read and one write.
func (s *Sink) serveConn(ctx context.Context, c net.Conn) {
	buf, held := make([]byte, 8<<10), 0 // buf[:held] is read and not answered yet
	var path string
	var does behaviour
	for {
		size, h, status := request(buf[:held])
		if status != 0 {
			s.malformed.Add(1)
			_, _ = c.Write(answers[status])
			return
		}
		if size == 0 || size > held {
			if held == len(buf) || size > len(buf) {
				buf = append(buf, make([]byte, max(size, 2*len(buf))-len(buf))...)
			}
			n, err := c.Read(buf[held:])
			if held += n; n == 0 && err != nil {
				return
			}
			continue
		}
		if string(h.path) != path {
			path = string(h.path)
			does = parsePath(path)
		}
		if _, err := c.Write(answers[s.receive(ctx, does, buf[h.body:size])]); err != nil || h.closes {
			return
		}
		held = copy(buf, buf[size:held])
	}
}

// head is the part of a request before its body.
type head struct {
	path   []byte
	body   int  // where the body begins
	closes bool // Connection: close
}

// request parses the request at the start of b and returns its size including the body, 0 if its head is incomplete. A
// status other than 0 is the answer to a malformed request.
func request(b []byte) (size int, h head, status int) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > maxHead {
			return 0, h, 400
		}
		return 0, h, 0
	}
	line, fields, _ := bytes.Cut(b[:end], []byte("\r\n"))
	_, line, _ = bytes.Cut(line, []byte(" "))
	path, version, _ := bytes.Cut(line, []byte(" "))
	if !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return 0, h, 400
	}
	h.path, h.body = path, end+4
	length := -1
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || n < 0 || n > maxBody || length >= 0 && n != length {
				return 0, h, 400
			}
			length = n
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			return 0, h, 411
		case len(name) == len("Connection") && bytes.EqualFold(name, []byte("Connection")):
			h.closes = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
		}
	}
	return h.body + max(length, 0), h, 0
}
