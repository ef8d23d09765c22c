package payload

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// maxPointer bounds a JSON pointer in bytes. A longer one is cut.
const maxPointer = 300

// pointers finds the JSON pointers (RFC 6901) of places in a body. The places must be asked for in ascending order.
type pointers struct {
	body   []byte
	reader *json.Decoder
	path   []step
	ended  bool // the body is no JSON, or has been read
}

// step is an object or array around the place that was read last.
type step struct {
	array bool
	index int    // of the element in the array
	name  string // of the member of the object
	named bool   // the name was read, and its value was not
}

// find returns the pointer to the value that has the byte with that offset; empty if the body is no JSON.
func (p *pointers) find(offset int) string {
	if p.reader == nil {
		p.reader = json.NewDecoder(bytes.NewReader(p.body))
		p.reader.UseNumber()
	}
	for !p.ended && p.reader.InputOffset() <= int64(offset) {
		token, err := p.reader.Token()
		if err != nil {
			p.ended, p.path = true, nil
			break
		}
		p.advance(token)
	}
	return p.text()
}

// advance moves the path on behind a token.
func (p *pointers) advance(token json.Token) {
	if mark, ok := token.(json.Delim); ok && (mark == '}' || mark == ']') {
		p.path = p.path[:len(p.path)-1]
		return
	}
	if n := len(p.path); n > 0 {
		last := &p.path[n-1]
		switch {
		case last.array:
			last.index++
		case !last.named:
			last.name, _ = token.(string)
			last.named = true
			return
		default:
			last.named = false
		}
	}
	if mark, ok := token.(json.Delim); ok {
		p.path = append(p.path, step{array: mark == '[', index: -1})
	}
}

// escapes are those of JSON pointers.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func (p *pointers) text() string {
	var b strings.Builder
	for _, s := range p.path {
		if b.Len() > maxPointer {
			break
		}
		b.WriteByte('/')
		if s.array {
			b.WriteString(strconv.Itoa(max(s.index, 0)))
		} else {
			b.WriteString(escapes.Replace(s.name[:min(len(s.name), maxPointer)]))
		}
	}
	return b.String()
}
