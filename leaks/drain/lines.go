package drain

import "bytes"

// border is between two objects of an array.
var border = []byte("},{")

// lineCounter counts lines and bytes: newlines, the elements of an array of objects, or the frames of Logplex.
type lineCounter struct {
	framed       bool // octet counting (RFC 6587, 3.4.1): the length of a message in bytes, a space, the message
	lines, bytes uint64
	elements     uint64 // borders between the objects of an array
	array        bool
	tail         [2]byte // the last bytes
	frames       frames
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.framed {
		c.frames.add(p)
	}
	if c.bytes == 0 {
		c.array = p[0] == '['
	}
	var around [4]byte // the bytes on both sides of the cut between two writes
	copy(around[:], c.tail[:])
	n := 2 + copy(around[2:], p)
	if c.array {
		c.elements += uint64(bytes.Count(p, border) + bytes.Count(around[:n], border))
	}
	c.lines += uint64(bytes.Count(p, []byte{'\n'}))
	c.bytes += uint64(len(p))
	copy(c.tail[:], around[n-2:n])
	if len(p) > 2 {
		copy(c.tail[:], p[len(p)-2:])
	}
	return len(p), nil
}

// count returns the number of lines; the last one need not end with a newline.
func (c *lineCounter) count() uint64 {
	switch {
	case c.framed && c.frames.complete():
		return c.frames.n
	case c.bytes > 0 && c.tail[1] != '\n':
		return c.lines + c.elements + 1
	default:
		return c.lines + c.elements
	}
}

// frames counts the messages of an octet-counted text.
type frames struct {
	n       uint64
	length  int // of the next message, as far as it is read
	digits  int
	left    int // bytes of the message that are missing
	invalid bool
}

// maxFrameDigits bounds the length of a message: a body has at most 64 MiB.
const maxFrameDigits = 8

func (f *frames) add(p []byte) {
	for len(p) > 0 && !f.invalid {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		switch {
		case c >= '0' && c <= '9' && f.digits < maxFrameDigits:
			f.length, f.digits = f.length*10+int(c-'0'), f.digits+1
		case c == ' ' && f.length > 0:
			f.n++
			f.left, f.length, f.digits = f.length, 0, 0
		case c == '\n' && f.digits == 0: // between two messages, as some senders write it
		default:
			f.invalid = true
		}
	}
}

// complete reports whether the text consisted of messages.
func (f *frames) complete() bool { return !f.invalid && f.left == 0 && f.digits == 0 }
