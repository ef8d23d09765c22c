package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/leaktest"
	"github.com/eventrelay/relay/test/must"
)

// A report becomes a hit, whose finding is the one that a drain makes of the same secret.
func TestReportBecomesAHit(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	if got := w.report(reportOf(1)); got.Accepted != 1 || len(got.Rejected) != 0 || got.Rejected == nil {
		t.Errorf("%+v", got)
	}
	h := w.Only()
	text, _ := leakedKey(1)
	keys := leaktest.Keys
	fingerprint := leaktest.Fingerprint(text)
	if h.Fingerprint != fingerprint || h.Finding != keys.ID("stripe-secret-live", fingerprint, [16]byte{}) {
		t.Errorf("%+v", h)
	}
	want := finding.Location{Source: finding.SDK, Label: "shop", DSNID: dsnID, File: "src/pay.js", Line: 41,
		Function: "charge"}
	if h.Location != want || h.N != 3 || h.Channel != "log" || h.Sender != dsnID || h.Account != "acc_1" || !h.Billed ||
		h.Unverified || h.Test || h.Severity != finding.High || h.Environment != "production" || h.Release != "a1b2" ||
		h.Rule != "stripe-secret-live" || h.Kind != finding.Secret || h.Source != finding.SDK ||
		h.Masked != "sk_live_***0001" || !h.At.Equal(w.now) || !h.ObservedAt.Equal(w.now.Add(-time.Second)) {
		t.Errorf("%+v", h)
	}
	is.Lacks(t, string(w.Records[0].Value), text[8:16], "the record has a piece of the secret")
}

// A batch that is sent again makes the same hits; another batch makes others.
func TestRepeatedBatchCountsOnce(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	again := w.batchOf(reportOf(1), reportOf(2)).String()
	w.send(202, again)
	w.now = w.now.Add(30 * time.Second)
	w.send(202, again)
	if n := len(w.Hits()); n != 2 || len(w.Records) != 4 {
		t.Errorf("%d hits of %d records", n, len(w.Records))
	}
	w.report(reportOf(1))
	is.Equal(t, len(w.Hits()), 3, "hits")
}

// The answer waits for the log: what it has not acknowledged is not accepted, and leaves nothing in our log.
func TestAnswerWaitsForTheLog(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	body := w.batchOf(reportOf(1)).String()
	w.Answer = func(*stream.Record) error { return errors.New("away") }
	if rec := w.send(503, body); rec.Header().Get("Retry-After") != "1" || w.logs.Len() > 0 {
		t.Errorf("%v, log %s", rec.Header(), &w.logs)
	}
	w.Answer = nil
	w.send(202, body)
	w.Only()
}

// leftClient is the response of a client that has left.
type leftClient struct{ http.ResponseWriter }

func (leftClient) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A client that leaves before it has the answer is no error: its report is stored.
func TestClientLeavesBeforeTheAnswer(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	r := httptest.NewRequest("POST", path, strings.NewReader(w.batchOf(reportOf(1)).String()))
	w.in.Handler().ServeHTTP(leftClient{httptest.NewRecorder()}, r)
	if w.Only(); w.logs.Len() > 0 {
		t.Errorf("log %s", &w.logs)
	}
}

// A member that is not as docs/design/reports.md says rejects its report, and only that.
func TestReportsAreChecked(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	secret, fp1 := leakedKey(7)
	at := func(members ...any) object { return reportOf(1).with("where", object{}.with(members...)) }
	response := func(members ...any) object { return at(members...).with("type", "response") }
	f := func(r object, want reason) {
		t.Helper()
		before := len(w.Records)
		got := w.report(r, reportOf(2))
		if want == accepted && (got.Accepted != 2 || len(got.Rejected) > 0) || want != accepted &&
			(got.Accepted != 1 || len(got.Rejected) != 1 || got.Rejected[0] != rejection{0, want}) {
			t.Errorf("%s: %+v, want %q", r, got, want)
		}
		for _, record := range w.Records[before:] {
			if bytes.Contains(record.Value, []byte(secret[12:20])) {
				t.Errorf("%s: stored: %s", r, record.Value)
			}
		}
	}
	one := reportOf(1)
	f(one, accepted)
	f(one.with("more", object{"a": 1}), accepted)
	f(one.with("type", "trace"), invalidReport)
	f(one.with("type", "error"), accepted)
	f(one.with("masked", 1), invalidReport)
	f(one.with("count", 0), invalidReport)
	f(one.with("count", 1), accepted)
	f(one.with("count", 1_000_000), accepted)
	f(one.with("count", 1_000_001), invalidReport)
	f(one.with("count", 1.5), invalidReport)
	f(one.with("count", "1"), invalidReport)
	f(one.with("first_at", "2026-08-21 22:24"), invalidReport)
	f(one.with("last_at", nil), invalidReport)
	f(one.with("first_at", one["last_at"], "last_at", one["first_at"]), accepted) // the clock was set back
	f(one.with("rule", "Stripe"), invalidRule)
	f(one.with("rule", ""), invalidRule)
	f(one.with("rule", "custom:"), invalidRule)
	f(one.with("rule", strings.Repeat("r", 41)), invalidRule)
	f(one.with("type", "response", "rule", "google-api-key", "masked", "AIza***1234"), invalidRule)
	f(one.with("rule", "google-api-key", "masked", "AIza***1234"), accepted)
	f(one.with("masked", "own_***1234"), invalidMask) // not that of the rule
	f(one.with("rule", "newer-rule", "masked", "<b>***"), invalidMask)
	f(one.with("masked", secret), invalidMask)
	f(one.with("masked", "sk_live_q8ZkT2vN***0001"), invalidMask)
	f(one.with("masked", "sk_live_***q8ZkT2vN"), invalidMask)
	f(one.with("masked", "sk_live_***00\n1"), invalidMask)
	f(one.with("masked", "<b>***"), invalidMask)
	f(one.with("masked", ""), invalidMask)
	f(one.with("masked", strings.Repeat("x", 81)), invalidMask)
	f(one.with("fp1", nil), invalidFingerprint)
	f(one.with("fp1", fp1[:42]), invalidFingerprint)
	f(one.with("fp1", fp1+"A"), invalidFingerprint)
	f(one.with("fp1", strings.Repeat("!", 43)), invalidFingerprint)
	f(one.with("fp1", strings.Repeat("-", 43)), invalidFingerprint) // bits behind the hash
	f(one.with("rule", "generic-secret", "masked", "***"), invalidFingerprint)
	f(one.with("rule", "generic-secret", "masked", "***", "fp1", nil), accepted)
	f(one.with("rule", "custom:own", "masked", "own_***1234"), invalidFingerprint)
	f(one.with("rule", "custom:own", "masked", "own_***1234", "fp1", nil), accepted)
	f(one.with("rule", "newer-rule", "masked", "new_***1234"), accepted)
	f(one.with("rule", "newer-rule", "masked", "new_***1234", "fp1", nil), accepted)
	f(one.with("where", nil), invalidWhere)
	f(one.with("where", json.RawMessage("null")), invalidWhere)
	f(one.with("where", "x"), invalidWhere)
	f(at(), accepted)
	f(at("file", strings.Repeat("ü", 256), "function", strings.Repeat("ü", 100)), accepted)
	f(at("file", strings.Repeat("ü", 257)), invalidWhere)
	f(at("function", strings.Repeat("f", 101)), invalidWhere)
	for _, text := range []string{"", " a", "a ", "a\nb", "a\u202eb", "a\u200bb", "a\x7f", "a\u2028b", "\ue000"} {
		f(at("file", text), invalidWhere)
		f(at("function", text), invalidWhere)
		f(response("path", text), invalidWhere)
		f(response("content_type", text), invalidWhere)
	}
	f(at("logger", "a b"), invalidWhere)
	f(at("line", 0), invalidWhere)
	f(at("line", 1.5), invalidWhere)
	f(at("column", 10_000_001), invalidWhere)
	f(response("method", "GET", "path", "/api/me", "status", 200, "content_type", "application/json"), accepted)
	f(response("method", "get"), invalidWhere)
	f(response("path", "/a?b"), invalidWhere)
	f(response("status", 99), invalidWhere)
	// Every text is scanned again.
	f(at("file", "src/"+secret+".js", "function", secret, "logger", "x"), accepted)
	f(response("path", "/"+secret, "method", "GET"), accepted)
}

// A body that is no batch is refused as a whole.
func TestBatchesAreChecked(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	w.send(202, w.batchOf().with("dropped", object{"queue_full": 3}, "environment", nil, "release", nil).String())
	for _, body := range []string{"", "null", "[]", "{", `{"id":1}`, "{}" + "x",
		w.batchOf().with("id", "short").String(), w.batchOf().with("sdk", nil).String(),
		w.batchOf().with("sdk", object{"name": "relay.javascript", "version": "<b>"}).String(),
		w.batchOf().with("sdk", object{"name": "a b", "version": "1"}).String(),
		w.batchOf().with("sent_at", "now").String(), w.batchOf().with("environment", "a b").String(),
		w.batchOf().with("release", strings.Repeat("r", 65)).String(), w.batchOf().with("release", "").String(),
		w.batchOf().with("reports", nil).String(), w.batchOf().with("reports", "x").String(),
		w.batchOf(make([]object, 51)...).String(), strings.Repeat("[", 100_000),
		strings.Replace(w.batchOf().String(), "{", `{"id":"AAAAAAAAAAAAAAAAAAAAAA",`, 1), // a member twice
	} {
		w.send(400, body)
	}
	w.send(202, w.batchOf().with("dropped", "nonsense", "more", 1).String())
	if len(w.Hits()) > 0 {
		t.Error("a refused batch has made hits")
	}
}

func gzipped(text string) string {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return buf.String()
}

// Bodies are bounded, compressed and uncompressed, and by the platform.
func TestBodiesAreBounded(t *testing.T) {
	post := func(platform, encoding, body string, want int) {
		t.Helper()
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		if rec := newWorld(t, platform).request(r); rec.Code != want {
			t.Errorf("%s %s, %d bytes: %d, want %d: %s", platform, encoding, len(body), rec.Code, want, rec.Body)
		}
	}
	of := func(length int) string {
		body := newWorld(t, leak.DSNServer).batchOf().String()
		return body + strings.Repeat(" ", length-len(body))
	}
	for platform, most := range map[string]int{leak.DSNServer: 128 << 10, leak.DSNBrowser: 60_000} {
		post(platform, "", of(most), 202)
		post(platform, "", of(most+1), 413)
		r := httptest.NewRequest("POST", path, io.MultiReader(strings.NewReader(of(most+1))))
		if rec := newWorld(t, platform).request(r); r.ContentLength >= 0 || rec.Code != 413 {
			t.Errorf("%s, chunked: %d: %s", platform, rec.Code, rec.Body)
		}
		post(platform, "gzip", gzipped(of(most)), 202)
		post(platform, "gzip", gzipped(of(most+1)), 413)
		post(platform, "GZIP", gzipped(of(1000)), 202)
	}
	post(leak.DSNServer, "gzip", gzipped(strings.Repeat("x", 50<<20)), 413)
	post(leak.DSNServer, "gzip", of(1000), 400)
	post(leak.DSNServer, "gzip", gzipped(of(1000))[:100], 400)
	var empty bytes.Buffer // blocks that stand for nothing, before a batch
	z := gzip.NewWriter(&empty)
	for range 20_000 {
		_ = z.Flush() // a buffer takes everything
	}
	_, _ = z.Write([]byte(of(1000)))
	_ = z.Close()
	post(leak.DSNServer, "gzip", empty.String(), 400)
	post(leak.DSNServer, "br", of(1000), 400)
	post(leak.DSNServer, "gzip, gzip", gzipped(gzipped(of(1000))), 400)
}

// Bodies are decompressed in turn; a client that leaves gives its place up.
func TestBodiesAreDecompressedInTurn(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	for range cap(w.in.unzipping) {
		w.in.unzipping <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(gzipped(w.batchOf(reportOf(1)).String())))
	r.Header.Set("Content-Encoding", "gzip")
	if rec := w.request(r); rec.Code != 503 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	w.send(202, w.batchOf(reportOf(1)).String())
	<-w.in.unzipping
	for range 2 { // the first one releases its slot
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		body := strings.NewReader(gzipped(w.batchOf(reportOf(1)).String()))
		r := httptest.NewRequestWithContext(ctx, "POST", path, body)
		r.Header.Set("Content-Encoding", "gzip")
		if rec := w.request(r); rec.Code != 202 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
}

// A report has the members of its type, and no others.
func TestLocationHasItsMembers(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	all := object{"method": "GET", "path": "/a", "status": 200, "file": "pay.js", "function": "charge", "line": 4}
	w.report(reportOf(1).with("type", "response", "where", all))
	if h := w.Only(); h.Location.File != "" || h.Location.Function != "" || h.Location.Line != 0 ||
		h.Location.URL != "/a" || h.Method != "GET" {
		t.Errorf("%+v", h)
	}
	w = newWorld(t, leak.DSNServer)
	w.report(reportOf(1).with("type", "error", "where", all))
	if h := w.Only(); h.Location.File != "pay.js" || h.Location.URL != "" || h.Method != "" {
		t.Errorf("%+v", h)
	}
}

// Only POST with the key of a DSN is accepted, and every answer can be read by scripts.
func TestAnswers(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	f := func(method, target string, want int) *httptest.ResponseRecorder {
		t.Helper()
		rec := w.request(httptest.NewRequest(method, target, strings.NewReader(w.batchOf(reportOf(1)).String())))
		is.Equal(t, rec.Code, want, "%s %s: %s", method, target, rec.Body)
		return rec
	}
	f("POST", path, 202)
	f("POST", strings.Replace(path, dsnID, "dsn_2", 1), 401)
	f("POST", strings.Replace(path, publicKey, "pkOther", 1), 401)
	f("POST", PathPrefix+dsnID+pathSuffix, 401)
	f("POST", PathPrefix+dsnID+"/other?k="+publicKey, 404)
	f("POST", PathPrefix, 404)
	f("POST", PathPrefix+"a/"+dsnID+pathSuffix+"?k="+publicKey, 404)
	if rec := f("GET", path, 405); rec.Header().Get("Allow") != "POST, OPTIONS" {
		t.Errorf("%v", rec.Header())
	}
	if rec := f("OPTIONS", path, 204); rec.Header().Get("Access-Control-Allow-Methods") != "POST" ||
		rec.Header().Get("Access-Control-Allow-Headers") != "Content-Type, Content-Encoding" {
		t.Errorf("%v", rec.Header())
	}
	huge := httptest.NewRequest("POST", path, nil)
	huge.Header.Set("X", strings.Repeat("x", 1<<20))
	if rec := w.request(huge); rec.Code != 431 {
		t.Errorf("%d", rec.Code)
	}
	other := httptest.NewRecorder()
	AllowAnyOrigin(http.NotFoundHandler()).ServeHTTP(other, httptest.NewRequest("POST", path, nil))
	if other.Code != 404 || other.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v", other.Code, other.Header())
	}
}

// Pages of other origins are refused if the DSN names origins.
func TestOriginsAreChecked(t *testing.T) {
	w := newWorld(t, leak.DSNBrowser)
	f := func(origin string, want int) {
		t.Helper()
		r := httptest.NewRequest("POST", path, strings.NewReader(w.batchOf(reportOf(1)).String()))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if rec := w.request(r); rec.Code != want {
			t.Errorf("%q: %d, want %d", origin, rec.Code, want)
		}
	}
	f("https://any.example", 202)
	w.to.AllowedOrigins = []string{"https://a.example"}
	f("https://a.example", 202)
	f("https://b.example", 403)
	f("null", 403)
	f("", 403)
}

// A DSN has 600 requests a minute. The answer says how long to wait.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock does not advance meanwhile
		w := newWorld(t, leak.DSNServer)
		body := w.batchOf().String()
		for range maxRequests {
			w.send(202, body)
		}
		if rec := w.send(429, body); rec.Header().Get("Retry-After") != "60" {
			t.Errorf("%v", rec.Header())
		}
	})
}

// The quota of a day counts accepted reports. What is beyond it is rejected, in the order of the batch.
func TestDailyQuota(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	w.to.DailyQuota = 3
	w.report(reportOf(1), reportOf(2).with("count", 0))
	got := w.report(reportOf(2), reportOf(3), reportOf(4), reportOf(5))
	if got.Accepted != 2 || len(got.Rejected) != 2 || got.Rejected[0] != (rejection{2, overQuota}) ||
		got.Rejected[1] != (rejection{3, overQuota}) {
		t.Errorf("%+v", got)
	}
	if got := w.report(reportOf(6)); got.Accepted != 0 || len(w.Hits()) != 3 {
		t.Errorf("%+v, %d hits", got, len(w.Hits()))
	}
	w.now = w.now.Add(24 * time.Hour)
	if got := w.report(reportOf(6)); got.Accepted != 1 {
		t.Errorf("the next day: %+v", got)
	}
}

// What was received is counted, with the name of the SDK and the reason of the last refusal.
func TestReportsAreCounted(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	w.report(reportOf(1), reportOf(2).with("count", 0))
	last := func() *finding.Counts {
		t.Helper()
		w.in.stage.Report(w.now)
		c := must.Get(finding.DecodeCounts(w.Records[len(w.Records)-1].Value))(t)
		return c
	}
	if c := last(); c.Sender != dsnID || c.Requests != 1 || c.Lines != 2 || c.Hits != 3 || c.Rejected != 0 ||
		c.Platform != "relay.javascript 0.1.0" || c.Bytes == 0 || c.LastError != "" {
		t.Errorf("%+v", c)
	}
	w.send(413, strings.Repeat("x", maxServerBody+1))
	if c := last(); c.Requests != 2 || c.Rejected != 1 || c.LastError != "too_large" {
		t.Errorf("%+v", c)
	}
	w.send(202, w.batchOf().with("dropped", object{"masking_failed": 2}).String())
	if c := last(); c.Requests != 3 || c.LastError != "masking_failed" {
		t.Errorf("%+v", c)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	is.OK(t, w.in.Run(ctx))
}

// dial opens a connection from an address, and sends the head of a batch for a DSN and what is given of its body.
func dial(t *testing.T, srv *httptest.Server, from, dsn string, length int, body string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn := must.Get(d.Dial("tcp", srv.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	target := strings.Replace(path, dsnID, dsn, 1)
	const head = "POST %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: %d\r\n\r\n%s"
	must.Get(fmt.Fprintf(conn, head, target, length, body))(t)
	return conn
}

func status(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	text, _ := io.ReadAll(res.Body) // the server may close the connection while we send
	return res.StatusCode, string(text)
}

// Clients that stall in their bodies hold the slots of one DSN and of their own address, whatever X-Forwarded-For says.
// Other DSNs and other clients are served.
func TestSlowBodiesHoldOneShare(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	w.anyDSN = true
	w.in.running.most, w.in.running.ofDSN, w.in.running.ofClient = 4, 3, 2
	srv := httptest.NewServer(w.in.Handler())
	t.Cleanup(srv.Close)
	running := func() int {
		for n := 0; ; n++ {
			_, leave, err := w.in.running.Enter(intake.Bound{Of: "node", Most: n + 1, Full: errNodeFull})
			if err == nil {
				leave()
				return n
			}
		}
	}
	await := func(n int) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); running() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d bodies are being read, want %d", running(), n)
			}
		}
	}
	var stalled []net.Conn
	stall := func(from, dsn string) {
		t.Helper()
		stalled = append(stalled, dial(t, srv, from, dsn, 1000, "{"))
		await(len(stalled))
	}
	body := w.batchOf().String()
	f := func(from, dsn string, want int) {
		t.Helper()
		if got, text := status(t, dial(t, srv, from, dsn, len(body), body)); got != want {
			t.Errorf("%s from %s: %d, want %d: %s", dsn, from, got, want, text)
		}
	}
	stall("127.0.0.1", dsnID)
	stall("127.0.0.1", dsnID)
	f("127.0.0.1", "dsn_2", 429) // the address's share
	f("127.0.0.2", dsnID, 202)
	stall("127.0.0.2", dsnID)
	f("127.0.0.3", dsnID, 429) // the DSN's share
	f("127.0.0.3", "dsn_2", 202)
	stall("127.0.0.3", "dsn_2")
	f("127.0.0.4", "dsn_3", 503) // the node
	for _, conn := range stalled {
		_ = conn.Close()
	}
	await(0)
	f("127.0.0.1", dsnID, 202)
	await(0)
}

// A body that arrives byte by byte is given up at the deadline of the whole body.
func TestBodiesHaveADeadline(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	is.Equal(t, w.in.front.BodyTimeout, bodyTimeout, "the deadline")
	w.in.front.BodyTimeout = 100 * time.Millisecond
	srv := httptest.NewServer(w.in.Handler())
	t.Cleanup(srv.Close)
	conn := dial(t, srv, "127.0.0.1", dsnID, maxServerBody, "{")
	go func() {
		for err := error(nil); err == nil; time.Sleep(time.Millisecond) {
			_, err = conn.Write([]byte(" "))
		}
	}()
	if got, text := status(t, conn); got != 400 || !strings.Contains(text, "in time") {
		t.Errorf("%d %s", got, text)
	}
}
