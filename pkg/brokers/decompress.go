package brokers

import (
	"bytes"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Budget unpacks batches of records until they have used it up: whoever writes to a topic could fill the memory with
// one fetch, because a megabyte may unpack to a gigabyte, and a fetch has many batches. franz-go bounds single batches
// only.
type Budget struct {
	limit int64
	left  atomic.Int64
	plain kgo.Decompressor
}

// NewBudget returns a Budget of a number of bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit, plain: kgo.DefaultDecompressor()}
	b.Renew()
	return b
}

// Renew gives all of it again.
func (b *Budget) Renew() { b.left.Store(b.limit) }

// Decompress implements [kgo.Decompressor]. Its error is [kgo.ErrMaxDecompress] if the budget is not enough.
func (b *Budget) Decompress(src []byte, codec kgo.CompressionCodecType) (out []byte, err error) {
	left := b.left.Load()
	var r io.Reader
	switch codec {
	case kgo.CodecGzip:
		r, err = gzip.NewReader(bytes.NewReader(src))
	case kgo.CodecLz4:
		r = lz4.NewReader(bytes.NewReader(src))
	case kgo.CodecZstd:
		var d *zstd.Decoder
		d, err = zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(max(left, 1<<20))))
		if err == nil {
			defer d.Close()
			r = d
		}
	default: // Snappy unpacks to 21 times as much at most
		out, err = b.plain.Decompress(src, codec)
	}
	if err == nil && r != nil {
		out, err = io.ReadAll(io.LimitReader(r, left+1))
	}
	if b.left.Add(-int64(len(out))) < 0 {
		return nil, kgo.ErrMaxDecompress
	}
	return out, err
}
