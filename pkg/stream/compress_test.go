package stream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Batches are compressed, but none that would become more than ten times as large when it is read.
func TestCompressionIsBounded(t *testing.T) {
	c := must.Get(newCompressor())(t)
	var different strings.Builder
	for i := range 200 {
		fmt.Fprintf(&different, `{"id":"%08x","amount":%d}`, i*2_654_435_761, i*i*7919%100_003)
	}
	for name, x := range map[string]struct {
		batch string
		want  kgo.CompressionCodecType
	}{
		"events": {different.String(), kgo.CodecZstd}, "zeros": {strings.Repeat("\x00", 1<<20), kgo.CodecNone},
		"one event again and again": {strings.Repeat(`{"type":"order.paid","data":{"id":"o_1"}}`, 100), kgo.CodecNone},
	} {
		out, codec := c.Compress(new(bytes.Buffer), []byte(x.batch))
		if codec != x.want || len(out)*maxExpansion < len(x.batch) {
			t.Errorf("%s: %d of %d bytes, codec %d", name, len(out), len(x.batch), codec)
		}
	}
}
