package drain

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// logText returns about 16 MiB of lines as services write them, with a secret in one of 10,000.
func logText() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 16<<20; i++ {
		fmt.Fprintf(&b, `{"time":"2026-01-02T03:04:%02d.%03dZ","level":"info","app":"web-%d","msg":"request completed",`+
			`"method":"GET","path":"/v1/orders/%d","status":200,"duration_ms":%d,"trace":"%016x"}`+"\n",
			i%60, i%1000, i%7, i*7919%100_003, i%311, uint64(i)*0x9e3779b97f4a7c15)
		if i%10_000 == 0 {
			fmt.Fprintf(&b, `{"app":"web","msg":"charge failed with %s"}`+"\n", leakedKey(i))
		}
	}
	return b.Bytes()
}

// BenchmarkDrain compares a drain with what it cannot do without: the scanner alone, and compress/gzip with the scanner
// on its output. Rates are of CPU time, and ratios of this run: other load on the machine changes neither much.
func BenchmarkDrain(b *testing.B) {
	text := logText()
	packed := []byte(gzipped(string(text)))
	w := newWorld(b)
	w.drain.deps.Tokens = unlimited{}
	scan := func(from io.Reader) {
		s := scanner().NewStream(func(secrets.Found) bool { return true })
		must.Get(io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{from}, make([]byte, 32<<10)))(b)
		_ = s.Close()
	}
	rates := map[string]float64{}
	run := func(name string, once func()) {
		b.Run(name, func(b *testing.B) {
			before := kit.CPUTime(b)
			for b.Loop() {
				once()
			}
			rates[name] = float64(len(text)) / 1e6 * float64(b.N) / (kit.CPUTime(b) - before).Seconds()
			b.ReportMetric(rates[name], "MB/cpu-s")
			if base, measured := rates[strings.Replace(name, "drain", "scanner", 1)]; measured && base != rates[name] {
				b.ReportMetric(rates[name]/base, "of-scanner")
			}
		})
	}
	send := func(body []byte) {
		if status, answer := w.send(http.MethodPost, path, bytes.NewReader(body)); status != 202 {
			b.Fatal(status, answer)
		}
		w.Records = w.Records[:0]
	}
	run("scanner-plain", func() { scan(bytes.NewReader(text)) })
	run("drain-plain", func() { send(text) })
	run("scanner-gzip", func() {
		z := must.Get(gzip.NewReader(bytes.NewReader(packed)))(b)
		scan(z)
	})
	run("drain-gzip", func() { send(packed) })
}

// unlimited has no limit.
type unlimited struct{}

func (unlimited) TakeSharedToken(string, string, float64) (time.Duration, float64) { return 0, 1 }
func (unlimited) TakeSharedTokens(string, string, int, float64) time.Duration      { return 0 }
