package intake

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// gzipped returns text as gzip of that level, with an empty block after each piece of that many bytes.
func gzipped(t testing.TB, text string, level, piece int) string {
	t.Helper()
	var b bytes.Buffer
	z := must.Get(gzip.NewWriterLevel(&b, level))(t)
	for text != "" {
		n := min(piece, len(text))
		_, _ = io.WriteString(z, text[:n]) // a buffer takes everything
		_ = z.Flush()
		text = text[n:]
	}
	_ = z.Close()
	return b.String()
}

// What programs compress is read, however badly it compresses and however small its pieces are.
func TestHonestDataIsRead(t *testing.T) {
	noise := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise) // never fails
	for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.BestCompression, gzip.HuffmanOnly} {
		for _, piece := range []int{10, 1 << 10, 1 << 20} {
			for name, text := range map[string]string{"noise": string(noise[:min(len(noise), 10_000*piece)]),
				"lines": strings.Repeat("GET /index.html 200\n", 10_000)} {
				z := must.Get(NewGzipReader(strings.NewReader(gzipped(t, text, level, piece))))(t)
				if got, err := io.ReadAll(z); err != nil || string(got) != text {
					t.Errorf("%s, level %d, pieces of %d: %d bytes, %v", name, level, piece, len(got), err)
				}
			}
		}
	}
}

// Blocks that stand for nothing are refused after some kilobytes, at the beginning and behind content.
func TestEmptyDataIsRefused(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 1 << 20 {
		_ = z.Flush()
	}
	_ = z.Close()
	for name, data := range map[string]string{
		"alone": b.String(), "behind a line": gzipped(t, "line", 9, 9) + b.String()} {
		from := strings.NewReader(data)
		unzipped := must.Get(NewGzipReader(from))(t)
		n, err := io.Copy(io.Discard, unzipped)
		if used := len(data) - from.Len(); !errors.Is(err, ErrEmptyGzip) || used > gzipGrace+8<<10 {
			t.Errorf("%s: %d bytes of %d, %v", name, n, used, err)
		}
	}
	if _, err := NewGzipReader(strings.NewReader("this is no gzip")); !errors.Is(err, ErrGzipHeader) {
		t.Error(err)
	}
}
