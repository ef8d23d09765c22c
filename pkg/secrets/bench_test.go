package secrets

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// logLines returns lines as services write them, without a credential, of n bytes at least.
func logLines(n int) []byte {
	g := newGenerator(7)
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"time":"2026-11-22T10:%02d:%02d.%03dZ","level":"info","msg":"request served","method":"POST",`+
			`"path":"/v1/orders/%d/items","status":20%d,"duration_ms":%d,"request_id":"req_%s","user_agent":"Mozilla/5.0 `+
			`(X11; Linux x86_64) AppleWebKit/537.36","remote_ip":"10.0.%d.%d","authenticated":true}`+"\n",
			g.IntN(60), g.IntN(60), g.IntN(1000), g.IntN(1e6), g.IntN(5), g.IntN(900), g.run(charsets["lownum"], 20),
			g.IntN(256), g.IntN(256))
		fmt.Fprintf(&b, "2026-11-22 10:00:0%d,%03d WARN [worker-%d] com.shop.Orders: retry %d of order %d after timeout; "+
			"session=%s table=orders_items\n", g.IntN(10), g.IntN(1000), g.IntN(8), g.IntN(5), g.IntN(1e6),
			g.run(charsets["lownum"], 12))
	}
	return b.Bytes()
}

// sources returns this project's programs and documents in one text.
func sources(t testing.TB) []byte {
	t.Helper()
	var text []byte
	for _, pattern := range []string{"../../*/*.go", "../../*.md", "../../docs/design/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			b := must.Get(os.ReadFile(name))(t)
			if !strings.HasSuffix(name, "_test.go") {
				text = append(text, b...)
			}
		}
	}
	return text
}

// BenchmarkScan reports the speed of the scanner for one core, in CPU time, that of a loop that only reads every byte,
// alternating with it, and their ratio: on a busy machine the ratio is what compares.
func BenchmarkScan(b *testing.B) {
	base := newLeaks(b)
	for _, text := range []struct {
		name string
		b    []byte
		s    *Scanner
	}{{"logs", logLines(4 << 20), base}, {"sources", sources(b), base},
		{"logs with own rules", logLines(4 << 20), with(b, base, ownRules(MaxCustomRules)...)}} {
		s := text.s
		b.Run(text.name, func(b *testing.B) {
			b.ReportAllocs()
			var scan, bytewise time.Duration
			for b.Loop() {
				start := kit.CPUTime(b)
				s.Scan(text.b, func(m Match) bool {
					b.Fatalf("%s in a text without credentials", m.Rule.ID)
					return false
				})
				middle := kit.CPUTime(b)
				sum = xorAll(text.b)
				scan, bytewise = scan+middle-start, bytewise+kit.CPUTime(b)-middle
			}
			speed := func(d time.Duration) float64 { return float64(len(text.b)*b.N) / 1e6 / d.Seconds() }
			b.ReportMetric(speed(scan), "scan-MB/s")
			b.ReportMetric(speed(bytewise), "bytes-MB/s")
			b.ReportMetric(speed(scan)/speed(bytewise), "ratio")
		})
	}
}

var sum byte // keeps the compiler from leaving the loop out

//go:noinline
func xorAll(b []byte) (sum byte) {
	for _, c := range b {
		sum ^= c
	}
	return sum
}

// hostile are texts that make a scanner work: many prefixes in one run, and many that almost match.
var hostile = []string{
	"ya29.", "glpat-", "hvb.", "pypi-AgE-", "ABSK/", "secret=", "token:\"", "eyJ.", "-eyJ",
	"-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----<", "MHcCAQEEI", "MHcCAQEEI ",
	"MIIEvQIBADANBgkqhkiG9w0BAQEFAAS ",
	`"d":"`, `"d":"a1B2c3D4a1B2c3D4a1B2c3D4","p":"`, "kty:RSA ", "crv:a,", `"kty":"oct","d"`,
	"redis://a:", "%25252F", "\\\\\\\\", "api_key=\x1b[0m", "ya29.-pypi-AgE-", "sl.Bglpat-", "AKIA ", "-us1",
	"&quot;secret",
	"sntrys_eyJ=", "=ops_eyJ", "ops_eyJ-", "glpat-ops_eyJ", "sl.u.glpat-", "sntrys_eyJ+", "ABSK+",
}

// Text of many prefixes in long runs is read a bounded number of times: the longest run that is read again for each
// prefix has 500 characters, and the shortest prefix in one 4.
func TestHostileTextIsReadABoundedNumberOfTimes(t *testing.T) {
	for _, s := range []*Scanner{newLeaks(t), newReceipts(t)} {
		for _, unit := range hostile {
			text := bytes.Repeat([]byte(unit), window/len(unit))
			stream := s.NewStream(func(Found) bool { return true })
			must.Get(stream.Write(text[:window/2]))(t)
			stream.scan(stream.n)
			if read := stream.pending.known.read; read > 125*stream.n {
				t.Errorf("%q: %d bytes were read of %d", unit, read, stream.n)
			}
			_ = stream.Close()
		}
	}
}

func newReceipts(t testing.TB) *Scanner {
	t.Helper()
	s := must.Get(New(ForReceipts))(t)
	return s
}

// BenchmarkHostile reports the speed, in CPU time of one core, for the slowest of the hostile texts.
func BenchmarkHostile(b *testing.B) {
	s := newLeaks(b)
	slowest, slow := math.Inf(1), ""
	for b.Loop() {
		for _, text := range hostile {
			repeated := bytes.Repeat([]byte(text), 1<<20/len(text))
			start := kit.CPUTime(b)
			s.Scan(repeated, func(Match) bool { return true })
			if speed := float64(len(repeated)) / 1e6 / (kit.CPUTime(b) - start).Seconds(); speed < slowest {
				slowest, slow = speed, text
			}
		}
	}
	b.ReportMetric(slowest, "slowest-MB/s")
	b.Logf("slowest: %q", slow)
}
