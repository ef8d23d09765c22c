package intake

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Gzip data (RFC 1952) can cost CPU time without end though no byte comes out of it: blocks without content compress to
// almost nothing themselves. It is refused once it is larger than what it stands for could make it.
//
// What cannot be compressed grows by a few bytes in each block, and a decompressor passes on 32 KiB at once. A member
// for each short line takes up to eight times as much. So what programs compress is no larger than gzipGrace bytes and
// mostGzip times what has come out of it.
const (
	gzipGrace = 40 << 10
	mostGzip  = 8
)

// ErrEmptyGzip means that most of the gzip data stands for nothing.
var ErrEmptyGzip = errors.New("most of the gzip data stands for nothing")

// ErrGzipHeader means that the data does not begin like gzip.
var ErrGzipHeader = gzip.ErrHeader

// GzipBalance compares gzip data with what comes out of it. The zero value is ready.
type GzipBalance struct{ in, out int64 }

// In counts n bytes of gzip data. It returns [ErrEmptyGzip] if they stand for too little.
func (b *GzipBalance) In(n int) error {
	if b.in += int64(n); b.in > gzipGrace+mostGzip*b.out {
		return ErrEmptyGzip
	}
	return nil
}

// Out counts n bytes that came out.
func (b *GzipBalance) Out(n int) { b.out += int64(n) }

// GzipReader decompresses. It does not bound what comes out.
type GzipReader struct {
	z *gzip.Reader
	gzipSource
}

// gzipSource counts the gzip data that is read.
type gzipSource struct {
	from io.Reader
	GzipBalance
}

func (s *gzipSource) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if empty := s.In(n); empty != nil {
		return 0, empty
	}
	return n, err
}

// NewGzipReader reads the header. It returns [ErrGzipHeader] if there is none.
func NewGzipReader(from io.Reader) (*GzipReader, error) {
	r := &GzipReader{gzipSource: gzipSource{from: from}}
	var err error
	r.z, err = gzip.NewReader(&r.gzipSource)
	return r, err
}

// Read reads decompressed bytes. It returns [ErrEmptyGzip] for data that stands for too little, and what package gzip
// returns for corrupt data.
func (r *GzipReader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	r.Out(n)
	return n, err
}
