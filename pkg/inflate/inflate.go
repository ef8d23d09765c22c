// Package inflate decompresses gzip (RFC 1952) that strangers send. Gzip data can cost CPU time without end though no
// byte comes out of it: blocks without content compress to almost nothing themselves. It is refused once it is larger
// than what it stands for could make it.
package inflate

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// What cannot be compressed grows by a few bytes in each block, and a decompressor passes on 32 KiB at once. A member
// for each short line takes up to eight times as much. So what programs compress is no larger than grace bytes and most
// times what has come out of it.
const (
	grace = 40 << 10
	most  = 8
)

// ErrEmpty means that most of the gzip data stands for nothing.
var ErrEmpty = errors.New("most of the gzip data stands for nothing")

// ErrHeader means that the data does not begin like gzip.
var ErrHeader = gzip.ErrHeader

// Balance compares gzip data with what comes out of it. The zero value is ready.
type Balance struct{ in, out int64 }

// In counts n bytes of gzip data. It returns [ErrEmpty] if they stand for too little.
func (b *Balance) In(n int) error {
	if b.in += int64(n); b.in > grace+most*b.out {
		return ErrEmpty
	}
	return nil
}

// Out counts n bytes that came out.
func (b *Balance) Out(n int) { b.out += int64(n) }

// Reader decompresses. It does not bound what comes out.
type Reader struct {
	z *gzip.Reader
	source
}

// source counts the gzip data that is read.
type source struct {
	from io.Reader
	Balance
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if empty := s.In(n); empty != nil {
		return 0, empty
	}
	return n, err
}

// NewReader reads the header. It returns [ErrHeader] if there is none.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{source: source{from: from}}
	var err error
	r.z, err = gzip.NewReader(&r.source)
	return r, err
}

// Read reads decompressed bytes. It returns [ErrEmpty] for data that stands for too little, and what package gzip
// returns for corrupt data.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	r.Out(n)
	return n, err
}
