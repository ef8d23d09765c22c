package brokers_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/brokers"
	"github.com/eventrelay/relay/test/must"
)

// Batches of all codecs are unpacked until they have used up the budget, each in part.
func TestBudget(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("order"), 20_000)
	for name, codec := range map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "lz4": kgo.Lz4Compression(),
		"snappy": kgo.SnappyCompression(), "zstd": kgo.ZstdCompression()} {
		compressor := must.Get(kgo.DefaultCompressor(codec))(t)
		packed, is := compressor.Compress(new(bytes.Buffer), text)
		b := brokers.NewBudget(int64(2*len(text)) + 1)
		for range 2 {
			if out, err := b.Decompress(packed, is); err != nil || !bytes.Equal(out, text) {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
		}
		if _, err := b.Decompress(packed, is); !errors.Is(err, kgo.ErrMaxDecompress) {
			t.Errorf("%s: after the budget: %v", name, err)
		}
		b.Renew()
		if _, err := b.Decompress(packed, is); err != nil {
			t.Errorf("%s: renewed: %v", name, err)
		}
	}
	bomb := must.Get(kgo.DefaultCompressor(kgo.ZstdCompression()))(t)
	packed, is := bomb.Compress(new(bytes.Buffer), make([]byte, 256<<20))
	if _, err := brokers.NewBudget(8<<20).Decompress(packed, is); err == nil {
		t.Error("a bomb was unpacked")
	}
}
