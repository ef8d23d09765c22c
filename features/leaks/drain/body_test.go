package drain

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// run starts the reports of a world's Drain.
func (w *world) run(ctx context.Context, done chan<- error) {
	var wg sync.WaitGroup
	wg.Go(func() { done <- w.drain.Run(ctx) })
}

func contextWithCancel(t *testing.T) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// countingReader counts what is read of it.
type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// inPieces reads at most that many bytes at a time.
type inPieces struct {
	io.Reader
	most int
}

func (r *inPieces) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.most)]) }

// bomb returns a gzip body of about 10 MB that is 10 GB decompressed.
func bomb(t *testing.T) []byte {
	t.Helper()
	var member bytes.Buffer
	z := must.Get(gzip.NewWriterLevel(&member, gzip.BestCompression))(t)
	must.Get(z.Write(make([]byte, 16<<20)))(t)
	must.Do(t, z.Close())
	return bytes.Repeat(member.Bytes(), 10<<30/(16<<20))[:10_000_000]
}

// A bomb is refused after the first 64 MiB of both levels together, whatever it would become, for about the CPU time
// that as many bytes of text need.
func TestBombsAreRefused(t *testing.T) {
	w := newWorld(t)
	before := kit.CPUTime(t)
	w.post(202, string(make([]byte, 64<<20)))
	text := kit.CPUTime(t) - before
	once := bomb(t)
	twice := gzipped(string(once[:1<<20]))
	for name, body := range map[string][]byte{"once": once, "twice": []byte(twice)} {
		from := &countingReader{Reader: bytes.NewReader(body)}
		scanned, before := testutil.ToFloat64(w.drain.bytes), kit.CPUTime(t)
		status, answer := w.send(http.MethodPost, path, from)
		took := kit.CPUTime(t) - before
		scanned = testutil.ToFloat64(w.drain.bytes) - scanned
		t.Logf("%s: %d bytes of %d read, %v scanned in %v of a processor; 64 MiB of text in %v", name, from.n, len(body),
			scanned, took, text)
		if status != 413 || !strings.Contains(answer, "decompressed") || from.n > 256<<10 || scanned > 64<<20 {
			t.Errorf("%s: %d %s after %d bytes, %v scanned", name, status, answer, from.n, scanned)
		}
		if took > 10*text { // 10 GB are 150 times as many bytes
			t.Errorf("%s: %v of CPU time, 64 MiB of text take %v", name, took, text)
		}
	}
}

// The bytes of each level take of the drain's rate.
func TestBytesOfEachLevelTakeTokens(t *testing.T) {
	w := newWorld(t)
	tokens := &countedTokens{}
	w.drain.deps.Tokens = tokens
	members := strings.Repeat(gzipped("a line\n"), 10_000)
	body := gzipped(members)
	w.post(202, body)
	if least := len(members) + len(body); tokens.bytes < least {
		t.Errorf("%d tokens were taken, want %d at least", tokens.bytes, least)
	}
}

// emptyBlocks is gzip data that has that many blocks of five bytes, which stand for nothing.
func emptyBlocks(n int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range n {
		_ = z.Flush() // a buffer takes everything
	}
	_ = z.Close()
	return b.String()
}

// Gzip data that stands for nothing costs CPU time, though no bytes come out of it. It is refused early, on both
// levels.
func TestEmptyGzipIsRefused(t *testing.T) {
	w := newWorld(t)
	blocks := emptyBlocks(1 << 20)
	for name, body := range map[string]string{"once": blocks, "twice": gzipped(blocks)} {
		from := &countingReader{Reader: strings.NewReader(body)}
		status, answer := w.send(http.MethodPost, path, from)
		if status != 400 || !strings.Contains(answer, "stands for nothing") || from.n > 40<<10+2*wireBuffer {
			t.Errorf("%s: %d %s after %d bytes", name, status, answer, from.n)
		}
	}
	w.post(202, emptyBlocks(1_000))
}

// A body is decompressed and decoded in its turn, also if nothing comes out of it.
func TestDecompressionWaitsForItsTurn(t *testing.T) {
	for name, body := range map[string]string{
		"gzip":     emptyBlocks(5_000),
		"Firehose": `{"requestId":"r","records":[` + strings.Repeat(`{"data":""},`, 5_000) + `{"data":"eA=="}]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			scans := w.drain.running.scans
			for range cap(scans) {
				scans <- struct{}{}
			}
			const piece = 512
			from := &countingReader{Reader: &inPieces{strings.NewReader(body), piece}}
			var wg sync.WaitGroup
			wg.Go(func() {
				var headers []string
				if name == "Firehose" {
					headers = []string{"X-Amz-Firehose-Request-Id", "r"}
				}
				if status, answer := w.send(http.MethodPost, path, from, headers...); status/100 != 2 {
					t.Errorf("%s: %d %s", name, status, answer)
				}
			})
			synctest.Wait()
			if from.n > 2*piece {
				t.Errorf("%s: %d of %d bytes were read before the turn", name, from.n, len(body))
			}
			for range cap(scans) {
				<-scans
			}
			wg.Wait()
		})
	}
}

// 60 MiB of lines are scanned in a few hundred kilobytes.
func TestALargeBodyNeedsLittleMemory(t *testing.T) {
	w := newWorld(t)
	line := strings.Repeat("GET /index.html 200 12ms ", 40) + "\n"
	body := io.LimitReader(&repeated{text: line}, 60<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, text := w.send(http.MethodPost, path, body)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; status != 202 || allocated > 2<<20 {
		t.Errorf("%d %s: %d bytes were allocated", status, text, allocated)
	}
}

// repeated is a text without an end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.text[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.text)
	}
	return n, nil
}

// Honest logs that compress 400:1 are accepted; larger and corrupt bodies are refused and store nothing.
func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	whole := gzipped(leakedKey(1) + strings.Repeat(" ", 1000))
	f := func(name string, want int, body string, headers ...string) {
		t.Helper()
		if status, text := w.send(http.MethodPost, path, strings.NewReader(body), headers...); status != want {
			t.Errorf("%s: %d %s, want %d", name, status, text, want)
		}
	}
	f("too large", 413, strings.Repeat("x", maxBody+1))
	f("cut off", 400, whole[:len(whole)-6])
	f("corrupt", 400, whole[:20]+"xx"+whole[22:])
	f("wrong checksum", 400, whole[:len(whole)-5]+"x"+whole[len(whole)-4:])
	f("another encoding", 415, "x", "Content-Encoding", "br")
	is.Equal(t, len(w.Hits()), 0, "hits of refused bodies")
	f("empty", 202, "")
	f("three levels", 202, gzipped(gzipped(gzipped(leakedKey(1)))))
	is.Equal(t, len(w.Hits()), 0, "hits of a third level")
	f("400 to 1", 202, gzipped(strings.Repeat(strings.Repeat("a", 100)+"\n", 100_000)), "Content-Encoding", "gzip")
	f("declared, but plain", 202, leakedKey(1), "Content-Encoding", "gzip")
	w.Only()
}

// A compressed body has its own bound on the wire.
func TestCompressedBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	var b bytes.Buffer
	z := must.Get(gzip.NewWriterLevel(&b, gzip.NoCompression))(t)
	_, _ = io.CopyN(z, &repeated{text: "line\n"}, maxCompressed) // a buffer takes everything
	_ = z.Close()
	w.post(413, b.String())
}

// pipeListener gives one end of each pipe to the server.
type pipeListener struct{ conns chan net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A body that arrives slower than the minimum rate is refused when its time is up, and a steady one is accepted.
func TestSlowSenders(t *testing.T) {
	for name, x := range map[string]struct {
		pause time.Duration // after each 64 KiB
		parts int
		want  string
		after time.Duration
	}{
		"stalled":  {time.Hour, 10, "408", bodyGrace + time.Second},
		"slow":     {3 * time.Second, 1000, "408", 9 * time.Second},
		"steady":   {time.Second / 2, 20, "202", 0},
		"too long": {time.Second * 9 / 10, 200, "408", maxTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				status, took := w.sendSlowly(t, x.parts, 64<<10, x.pause)
				is.Equal(t, status, x.want, "answered")
				if x.after > 0 && (took < x.after-time.Second || took > x.after+time.Second) {
					t.Errorf("answered after %v, want %v", took, x.after)
				}
			})
		})
	}
}

// sendSlowly sends a body over a connection, with a pause after each part, and returns the status of the answer
// and when it came.
func (w *world) sendSlowly(t *testing.T, parts, size int, pause time.Duration) (status string, took time.Duration) {
	t.Helper()
	listener := &pipeListener{make(chan net.Conn, 1)}
	server := &http.Server{Handler: w.drain.Handler()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	ours, theirs := net.Pipe()
	listener.conns <- theirs
	began := time.Now()
	wg.Go(func() {
		part := strings.Repeat("line of 16 bytes", size/16)
		_, _ = fmt.Fprintf(ours, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, parts*len(part))
		for range parts {
			if _, err := io.WriteString(ours, part); err != nil {
				return // it was refused
			}
			time.Sleep(pause)
		}
	})
	answer := make([]byte, 12)
	if _, err := io.ReadFull(ours, answer); err != nil {
		t.Error(err)
	}
	took = time.Since(began)
	_ = ours.Close()
	close(listener.conns)
	_ = server.Close()
	wg.Wait()
	return string(answer[9:]), took
}

// Pooled buffers are cleared: they keep nothing of the last body.
func TestBuffersForgetTheirLines(t *testing.T) {
	b := takeReaders(&wireReader{})
	b.chunk[0], b.decoded[len(b.decoded)-1] = 'x', 'x'
	if b.release(); b.chunk[0] != 0 || b.decoded[len(b.decoded)-1] != 0 {
		t.Error("they hold a line")
	}
}
