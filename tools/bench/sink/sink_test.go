package sink

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/count"
)

// run runs a sink as its command does, and returns its URL and a function that sends queries.
func run(t *testing.T, args ...string) (url string, ask func(Query) Report) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Main(context.Background(), args, inR, outW, io.Discard)
		outW.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		if err := <-ended; err != nil {
			t.Errorf("sink: %v", err)
		}
	})
	out, in := json.NewDecoder(outR), json.NewEncoder(inW)
	var hello Hello
	must.Do(t, out.Decode(&hello))
	return hello.URL, func(q Query) (r Report) {
		t.Helper()
		must.Do(t, in.Encode(q))
		must.Do(t, out.Decode(&r))
		return r
	}
}

func mark(run int, n int64) string {
	return count.Mark{Run: run, Number: n, Due: time.Now()}.String()
}

// exchange writes text to the sink in pieces and returns the statuses of that many answers.
func exchange(t *testing.T, url string, answers int, pieces ...string) (statuses []string) {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(time.Minute)))
	in := bufio.NewReader(c)
	for _, piece := range pieces {
		must.Get(io.WriteString(c, piece))(t)
	}
	for range answers {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %v: %v", statuses, err)
		}
		statuses = append(statuses, fmt.Sprint(resp.StatusCode))
	}
	return statuses
}

func TestRequestsAreReadWhole(t *testing.T) {
	t.Parallel()
	url, ask := run(t)
	large := mark(1, 2) + strings.Repeat("x", 100_000)
	got := exchange(t, url, 5,
		"POST /3/ok HTTP/1.1\r\nHost: h\r\nContent-Length: ", fmt.Sprint(count.MarkWidth), "\r\n", "\r\n", mark(1, 0)[:20],
		mark(1, 0)[20:],
		// two requests in one write, with different spellings of Content-Length
		fmt.Sprintf("POST /3/ok HTTP/1.1\r\nContent-Length:%d\r\n\r\n%sPOST /3/ok HTTP/1.1\r\ncontent-length: "+
			"%[1]d\r\n\r\n%[2]s", count.MarkWidth, mark(1, 1)),
		fmt.Sprintf("POST /0/ok HTTP/1.1\r\nX: y\r\nCONTENT-LENGTH: %d \r\n\r\n%s", len(large), large),
		"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
	if strings.Join(got, " ") != "200 200 200 200 200" {
		t.Errorf("answers %v", got)
	}
	for _, wrong := range []string{
		"POST /\r\n\r\n", "nonsense\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
	} {
		if got := exchange(t, url, 1, wrong); got[0] != "400" {
			t.Errorf("%q: %v", wrong, got)
		}
	}
	if got := exchange(t, url, 1, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"); got[0] != "411" {
		t.Errorf("chunks: %v", got)
	}
	r := ask(Query{Refused: map[int][]int64{1: {1, 7}}, Durations: true})
	if len(r.Tallies) != 2 || r.Unmarked != 1 || r.Malformed != 5 {
		t.Fatalf("%+v", r)
	}
	third := r.Tallies[1]
	if third.Destination != 3 || third.Arrived != 2 || third.Duplicates != 1 || third.Requests != 3 ||
		third.Refused != 1 ||
		third.Latency.N() != 2 || third.Last.IsZero() {
		t.Errorf("%+v", third)
	}
}

func TestPathsChooseBehaviours(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]behaviour{
		"/0/ok": {}, "/15/hang": {destination: 15, hang: true}, "/1/fail50": {destination: 1, fail: 50},
		"/2/slow20":       {destination: 2, slow: 20 * time.Millisecond},
		"/4/slow30after2": {destination: 4, slow: 30 * time.Millisecond, after: 2},
		"/16/ok":          {}, "/hook": {}, "/": {}, "": {}, "/-1/ok": {},
	} {
		if got := parsePath(path); got != want {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	}
	url, ask := run(t)
	post := func(path string, n int64) int {
		resp := must.Get(http.Post(url+path, "text/plain", strings.NewReader(mark(0, n))))(t)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := post("/1/fail100", 0); got != 500 {
		t.Errorf("fail100: %d", got)
	}
	if got := post("/1/fail100", 0); got != 500 {
		t.Errorf("fail100 again: %d", got)
	}
	if r := ask(Query{Durations: true}).Tallies[0].Retry; r.N() != 1 || r.Quantile(1) <= 0 || r.Quantile(1) > time.Minute {
		t.Errorf("time to the retry: %+v", r)
	}
	if began := time.Now(); post("/2/slow50", 0) != 200 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("slow50 took %v", time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url+"/3/hang", strings.NewReader(mark(0, 0))))(t)
	hung := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		hung <- err
	}()
	deadline := time.Now().Add(time.Minute)
	for len(ask(Query{}).Tallies) < 3 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-hung; err == nil {
		t.Error("hang answered")
	}
	for _, tally := range ask(Query{}).Tallies {
		if arrived := int64(0); tally.Requests != 1 && tally.Destination != 1 || tally.Destination == 2 &&
			tally.Arrived != 1 || tally.Destination != 2 && tally.Arrived != arrived {
			t.Errorf("%+v", tally)
		}
	}
}

// A behaviour with "after" answers the first requests at once.
func TestSlowAfterQuickRequests(t *testing.T) {
	t.Parallel()
	const slow = 200 * time.Millisecond
	url, _ := run(t)
	post := func(destination, number int) time.Duration {
		began := time.Now()
		resp := must.Get(http.Post(fmt.Sprintf("%s/%d/slow200after2", url, destination), "text/plain",
			strings.NewReader(mark(0, int64(number)))))(t)
		resp.Body.Close()
		return time.Since(began)
	}
	var quick time.Duration
	for destination := range 10 { // a busy machine may answer late
		quick = max(post(destination, 0), post(destination, 1))
		if took := post(destination, 2); took < slow {
			t.Errorf("the third request took %v", took)
		}
		if quick < slow {
			return
		}
	}
	t.Errorf("one of the first two requests always took long, the last %v", quick)
}

// net/http serves bodies of unknown length, TLS and HTTP/2.
func TestNetHTTPServesChunksTLSAndHTTP2(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	for _, c := range []struct {
		args  []string
		major int
	}{{[]string{"--net-http"}, 1}, {[]string{"--tls", file}, 1}, {[]string{"--tls", file, "--http2"}, 2}} {
		url, ask := run(t, c.args...)
		pool := x509.NewCertPool()
		if pem, err := os.ReadFile(file); err == nil {
			pool.AppendCertsFromPEM(pem)
		}
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
		// A reader of no known type makes the client send chunks.
		resp, err := (&http.Client{Transport: transport}).
			Post(url+"/1/ok", "text/plain", io.MultiReader(strings.NewReader(mark(9, 9))))
		if err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
		resp.Body.Close()
		if r := ask(Query{}); resp.ProtoMajor != c.major || len(r.Tallies) != 1 || r.Tallies[0].Run != 9 ||
			r.Tallies[0].Arrived != 1 {
			t.Errorf("%v: HTTP/%d, %+v", c.args, resp.ProtoMajor, r)
		}
		transport.CloseIdleConnections()
	}
}
