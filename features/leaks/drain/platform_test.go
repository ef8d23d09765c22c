package drain

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // Vercel's signatures are HMAC-SHA1
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// now is the time of the drain in golden tests.
var now = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

// newGoldenWorld returns a world whose time stands still.
func newGoldenWorld(t *testing.T) *world {
	w := newWorld(t)
	w.drain.deps.Now = func() time.Time { return now }
	return w
}

// frame returns a message of Logplex with its length before it.
func frame(message string) string { return fmt.Sprintf("%d %s", len(message), message) }

// signature returns what Vercel sends for a body.
func signature(secret, body string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// records returns a body of Firehose with those records.
func records(id string, data ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"requestId":"%s","timestamp":1772600767000,"records":[`, id)
	for i, x := range data {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"data":"%s"}`, base64.StdEncoding.EncodeToString([]byte(x)))
	}
	b.WriteString(`]}`)
	return b.String()
}

const firehoseID = "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"

// cloudWatch returns what a subscription of CloudWatch Logs puts into a record of Firehose.
func cloudWatch(group string, messages ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"messageType":"DATA_MESSAGE","owner":"123456789012","logGroup":"%s","logStream":"1",`+
		`"subscriptionFilters":["all"],"logEvents":[`, group)
	for i, m := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%d","timestamp":1772600700000,"message":"%s"}`, i, m)
	}
	b.WriteString("]}")
	return gzipped(b.String())
}

// golden is a request of a platform, made from its documentation, and what it expects.
type golden struct {
	method, body string
	headers      []string
	platform     string
	status       int
	answer       string
	lines        uint64
	label        string // of the hit
	observed     string // time of the hit
}

func goldens(secret string) map[string]golden {
	vercel := `{"id":"1573817187330377061717300000","deploymentId":"dpl_1","source":"lambda","host":"shop.vercel.app",` +
		`"timestamp":1772600700000,"projectId":"prj_1","projectName":"shop","level":"error","environment":"production",` +
		`"message":"charge failed with ` + secret + `"}`
	heroku := frame("<40>1 2026-03-04T05:05:00+00:00 host heroku web.3 - State changed from starting to up\n") +
		frame("<190>1 2026-03-04T05:05:00.000000+00:00 host app web.1 - charge failed with "+secret+"\n")
	logplex := []string{"Content-Type", "application/logplex-1", "Logplex-Msg-Count", "2", "Logplex-Frame-Id",
		"09C557EAFCFB6CF2740EE62F62971098", "Logplex-Drain-Token", "d.fc6b856b-3332-4546-93de-7d0ee272c3bd", "User-Agent",
		"Logplex/v72"}
	firehose := []string{"Content-Type", "application/json", firehoseRequest, firehoseID,
		"X-Amz-Firehose-Protocol-Version", "1.0", "User-Agent", "Amazon Kinesis Data Firehose Agent/1.0"}
	accepted := func(lines, bytes int) string {
		return fmt.Sprintf(`{"lines":%d,"bytes":%d,"hits":1}`+"\n", lines, bytes)
	}
	logpush := `{"ClientIP":"192.0.2.1","ClientRequestHost":"shop.example.com","ClientRequestURI":"/?key=` + secret +
		`","EdgeStartTimestamp":"2026-03-04T05:05:00Z","RayID":"8a1"}` + "\n"
	took := `{"requestId":"` + firehoseID + `","timestamp":1772600767089}` + "\n"
	return map[string]golden{
		"vercel, array": {
			body: "[" + vercel + "," + `{"id":"2","message":"ok"}]`, headers: []string{"Content-Type", "application/json",
				vercelSignature, "0000"},
			platform: "vercel", status: 200, answer: accepted(2, len(vercel)+28), lines: 2, label: "shop",
			observed: "2026-03-04T05:05:00Z"},
		"vercel, lines": {
			body: vercel + "\n", headers: []string{"Content-Type", "application/x-ndjson", vercelSignature, "0000"},
			platform: "vercel", status: 200, answer: accepted(1, len(vercel)+1), lines: 1, label: "shop",
			observed: "2026-03-04T05:05:00Z"},
		"vercel, gzip": {
			body: gzipped(vercel), headers: []string{"Content-Encoding", "gzip", vercelSignature, "0000"},
			platform: "vercel", status: 200, answer: accepted(1, len(vercel)), lines: 1, label: "shop",
			observed: "2026-03-04T05:05:00Z"},
		"heroku": {body: heroku, headers: logplex, platform: "heroku", status: 200, lines: 2, label: "app[web]",
			observed: "2026-03-04T05:05:00Z"},
		"heroku, older": {
			method: "PUT", body: frame("<40>1 2026-03-04T05:05:00+00:00 app web.3 d.73ea7440 - "+secret) +
				frame("<40>1 2026-03-04T05:05:01+00:00 app web.3 d.73ea7440 - up"),
			headers:  []string{"Content-Type", "application/x-logplex-1", "X-Logplex-Frame-Id", "1"},
			platform: "heroku", status: 200, lines: 2, label: "app[web]", observed: "2026-03-04T05:05:00Z"},
		"firehose": {body: records(firehoseID, "first", "key "+secret), headers: firehose, platform: "firehose", status: 200,
			answer: took, lines: 2, label: "production", observed: "2026-03-04T05:06:07Z"},
		"firehose, gzip": {body: gzipped(records(firehoseID, "key "+secret)), platform: "firehose", status: 200,
			headers: append([]string{"Content-Encoding", "gzip"}, firehose...), answer: took, lines: 1, label: "production",
			observed: "2026-03-04T05:06:07Z"},
		"firehose, cloudwatch": {
			body: records(firehoseID, cloudWatch("/aws/lambda/other", "up"), cloudWatch("/aws/lambda/pay",
				strings.Repeat("fill ", 600), "key "+secret), cloudWatch("/aws/lambda/third", "up")),
			headers: firehose, platform: "firehose", status: 200, answer: took, lines: 3, label: "/aws/lambda/pay",
			observed: "2026-03-04T05:05:00Z"},
		"cloudflare": {body: gzipped(logpush + logpush[:20] + "\"}\n"), headers: []string{"Content-Encoding", "gzip"},
			platform: "cloudflare", status: 200, answer: accepted(2, len(logpush)+23), lines: 2, label: "shop.example.com",
			observed: "2026-03-04T05:05:00Z"},
		"anything else": {body: secret, platform: "generic", status: 202, answer: accepted(1, len(secret)), lines: 1,
			label: "production", observed: "2026-03-04T05:06:07Z"},
	}
}

// Each platform is recognised on one URL, gets the answer that it expects, byte for byte, and its hits name the
// application and time that its lines have.
func TestPlatformsAreRecognised(t *testing.T) {
	secret := leakedKey(1)
	for name, x := range goldens(secret) {
		t.Run(name, func(t *testing.T) {
			w := newGoldenWorld(t)
			method := x.method
			if method == "" {
				method = "POST"
			}
			x.check(t, w.answered(method, path, strings.NewReader(x.body), x.headers...))
			h := w.Only()
			if h.Channel != x.platform || h.Location.Label != x.label || h.ObservedAt.Format(time.RFC3339) != x.observed {
				t.Errorf("hit of %s at %q, %v", h.Channel, h.Location.Label, h.ObservedAt)
			}
			w.drain.stage.Report(now)
			if c := w.counts()[0]; c.Platform != x.platform || c.Lines != x.lines || c.Hits != 1 {
				t.Errorf("counted %+v", c)
			}
			w.mustNotHold(secret)
		})
	}
}

// check compares an answer with the expected one.
func (x golden) check(t *testing.T, got *httptest.ResponseRecorder) {
	t.Helper()
	if got.Code != x.status || got.Body.String() != x.answer {
		t.Errorf("answered %d %q, want %d %q", got.Code, got.Body, x.status, x.answer)
	}
	want := "application/json"
	if x.answer == "" {
		want = ""
	}
	if got.Header().Get("Content-Type") != want || got.Header().Get("Content-Length") != fmt.Sprint(len(x.answer)) {
		t.Errorf("headers %v", got.Header())
	}
}

// What Cloudflare uploads to try a destination is accepted.
func TestLogpushTriesItsDestination(t *testing.T) {
	w := newGoldenWorld(t)
	w.post(200, gzipped(`{"content":"tests"}`), "Content-Encoding", "gzip")
	w.post(202, gzipped(`{"content":"other"}`), "Content-Encoding", "gzip")
	w.post(202, `{"content":"tests"}`)
	w.to.Platform = leak.PlatformCloudflare
	w.post(200, gzipped("{}"))
}

// With a signing secret a drain takes signed requests only, and Vercel's code is in every answer. Nothing of a request
// with a wrong signature is stored.
func TestSignaturesOfVercel(t *testing.T) {
	w := newGoldenWorld(t)
	body := `[{"message":"` + leakedKey(1) + `"}]`
	w.post(200, body, vercelSignature, "not checked") // Vercel shows its secret after it has tried the URL
	w.Records = nil
	w.secrets = leak.DrainSecrets{Signing: "the secret", VerifyCode: "code"}
	f := func(want int, method, body string, headers ...string) {
		t.Helper()
		got := w.answered(method, path, strings.NewReader(body), headers...)
		if got.Code != want || got.Header().Get("x-vercel-verify") != "code" {
			t.Errorf("%d %s with %v, want %d", got.Code, got.Body, got.Header(), want)
		}
	}
	f(403, "POST", body)
	f(403, "POST", body, vercelSignature, "")
	f(403, "POST", body, vercelSignature, "zz")
	f(403, "POST", body, vercelSignature, signature("another", body))
	f(403, "POST", body+" ", vercelSignature, signature("the secret", body))
	f(403, "POST", body, herokuFrame, "1")
	f(403, "POST", records("1", leakedKey(1)), firehoseRequest, "1")
	must.Equal(t, len(w.Hits()), 0, "hits of refused requests")
	f(200, "GET", "")
	f(200, "HEAD", "")
	packed := gzipped(body)
	f(200, "POST", packed, vercelSignature, signature("the secret", packed), "Content-Encoding", "gzip")
	f(200, "POST", body, vercelSignature, strings.ToUpper(signature("the secret", body)))
	w.Only()
	w.drain.stage.Report(now)
	if c := w.counts()[0]; c.Rejected != 7 || w.metric("bad_signature") != 7 {
		t.Errorf("%+v, %v", c, w.metric("bad_signature"))
	}
	w.to.Paused = true
	f(200, "POST", body)
}

// A request that a platform sends again counts once, even if the log had a part of it, and whatever its body is now.
func TestDeliveriesCountOnce(t *testing.T) {
	heroku := frame("<40>1 2026-03-04T05:05:00+00:00 host app web.1 - " + leakedKey(1) + " " + leakedKey(2) + "\n")
	for name, x := range map[string]struct {
		first, again string
		header       string
	}{
		"heroku": {heroku, heroku + frame("<40>1 2026-03-04T05:05:09+00:00 host app web.1 - up\n"), herokuFrame},
		"older":  {heroku, heroku + "9 <40>1 a b", herokuFrameOld},
		"firehose": {records("1", leakedKey(1)+" "+leakedKey(2)), records("1", leakedKey(1)+" "+leakedKey(2)) + "\n",
			firehoseRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGoldenWorld(t)
			n := 0
			w.Answer = func(*stream.Record) error {
				if n++; n == 2 {
					return errors.New("the broker is away")
				}
				return nil
			}
			w.post(503, x.first, x.header, "1")
			w.post(200, x.again, x.header, "1")
			is.Equal(t, len(w.Hits()), 2, "hits")
			w.post(200, x.again, x.header, "2")
			is.Equal(t, len(w.Hits()), 4, "hits of two deliveries")
		})
	}
}

// A paused drain answers each platform as if it had taken the lines: none of them disables it. Nothing is stored.
func TestPausedDrainsAnswerPlatforms(t *testing.T) {
	for name, x := range goldens(leakedKey(1)) {
		w := newGoldenWorld(t)
		w.to.Paused = true
		got := w.answered("POST", path, strings.NewReader(x.body), x.headers...)
		if got.Code != 200 || x.answer == "" != (got.Body.Len() == 0) ||
			strings.Contains(got.Body.String(), "requestId") != (x.platform == "firehose") {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
		is.Equal(t, len(w.Records), 0, "%s: records", name)
	}
}

// Above a limit Heroku, which drops what is answered with 4xx, gets 503; the others 429; Firehose in its own form.
func TestLimitsByPlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range maxRequestsPerSecond {
			w.post(202, "line")
		}
		for header, want := range map[string]int{
			herokuFrame: 503, firehoseRequest: 429, vercelSignature: 429, "X-None": 429} {
			got := w.answered("POST", path, strings.NewReader("line"), header, "7")
			if got.Code != want || got.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %d %v, want %d", header, got.Code, got.Header(), want)
			}
			if ours := strings.Contains(got.Body.String(), `"error":{`); ours == (header == firehoseRequest) {
				t.Errorf("%s: %s", header, got.Body)
			}
		}
	})
}

// An error for Firehose has the form that it shows to its customer.
func TestErrorsOfFirehose(t *testing.T) {
	w := newGoldenWorld(t)
	f := func(want int, text, path, body string, headers ...string) {
		t.Helper()
		got := w.answered("POST", path, strings.NewReader(body), append(headers, firehoseRequest, "id-1")...)
		if got.Code != want || !strings.HasPrefix(got.Body.String(),
			`{"requestId":"id-1","timestamp":1772600767089,"errorMessage":"`) || !strings.Contains(got.Body.String(), text) {
			t.Errorf("%s: %d %s, want %d", body, got.Code, got.Body, want)
		}
	}
	whole := records("id-1", leakedKey(1))
	f(404, "no drain", path+"x", whole)
	f(404, "no drain", PathPrefix+drainID, whole, firehoseAccessKey, "wrong")
	f(404, "no drain", PathPrefix+drainID, whole, firehoseAccessKey, strings.Repeat(" ", maxAccessKey)+token)
	for _, body := range []string{"", "{", "[]", "{}x", `{"records":1}`, `{"records":[1]}`, `{"records":[{"data":1}]}`,
		`{"records":[{"data":"!"}]}`, `{"records":[{"data":"QQ"}]}`, `{"records":[{"data":"QQ==QQ=="}]}`,
		whole[:len(whole)-1], whole[:len(whole)/2], `{"records" []}`, `{"x":` + strings.Repeat("[", 99),
		`{"records":[{"data":"\u00e9"}]}`,
		`{"` + strings.Repeat("x", maxMemberName+1) + `":1}`, `{"records":[],}`} {
		f(400, "malformed", path, body)
	}
	corrupt := cloudWatch("g", leakedKey(1))
	f(400, "corrupt", path, records("id-1", corrupt[:len(corrupt)-5]))
	f(400, "too early", path, gzipped(whole)[:60])
	w.deleted = true
	f(410, "deleted", path, whole)
	is.Equal(t, len(w.Hits()), 0, "hits of refused requests")
}

// The token may be in Firehose's access key, as it is or as a secret of AWS Secrets Manager. JSON that Firehose could
// write otherwise is read too.
func TestAccessKeyOfFirehose(t *testing.T) {
	w := newGoldenWorld(t)
	data := base64.StdEncoding.EncodeToString([]byte("? " + leakedKey(1) + " ?>?>?"))
	odd := ` { "x" : [ 1 , { } , [ ] , {"y":"\"\\u0041"} , null , true ] , "records" : [ { "more" : -1.5e3 , "data" : "` +
		strings.NewReplacer("=", `\u003d`, "/", `\/`).Replace(data) +
		`" } , {"data":""} , {} ] , "requestId" : "` + firehoseID + `" } ` + "\n"
	for _, key := range []string{token, `{"api_key":"` + token + `"}`} {
		status, text := w.send("POST", PathPrefix+drainID, strings.NewReader(odd), firehoseAccessKey, key, firehoseRequest,
			firehoseID)
		if status != 200 || !strings.Contains(text, firehoseID) {
			t.Errorf("%d %s", status, text)
		}
	}
	w.Only()
	w.to.Platform = leak.PlatformFirehose
	if text := w.post(200, odd); !strings.Contains(text, firehoseID) { // without its headers
		t.Errorf("%s", text)
	}
}

// A secret is found wherever Firehose's JSON and its base64 are cut.
func TestFirehoseIsReadAtEveryCut(t *testing.T) {
	w := newGoldenWorld(t)
	w.drain.deps.Tokens = unlimited{}
	body := records(firehoseID, "key "+leakedKey(1), "end")
	for cut := range len(body) + 1 {
		parts := io.MultiReader(strings.NewReader(body[:cut]), strings.NewReader(body[cut:]))
		if status, text := w.send("POST", path, parts, firehoseRequest, firehoseID); status != 200 {
			t.Errorf("cut at %d: %d %s", cut, status, text)
		}
	}
	w.Only()
}

// 64 MiB of plain Firehose need little memory; gzip inside counts against the bound of decompressed bytes.
func TestALargeFirehoseBody(t *testing.T) {
	w := newGoldenWorld(t)
	w.drain.deps.Tokens = unlimited{}
	line := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("GET /index.html 200 12ms ", 4000)))
	element := `{"data":"` + line + `"},`
	n := (maxBody - 200) / len(element)
	body := io.MultiReader(strings.NewReader(`{"requestId":"1","records":[`),
		io.LimitReader(&repeated{text: element}, int64(n*len(element))), strings.NewReader(`{"data":""}]}`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, text := w.send("POST", path, body, firehoseRequest, "1")
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; status != 200 || allocated > 4<<20 {
		t.Errorf("%d %s: %d bytes were allocated", status, text, allocated)
	}
	inner := gzipped(strings.Repeat(" ", 33<<20))
	w.post(413, records("1", inner, inner), firehoseRequest, "1")
}

// A sender that stops in the middle of a body gets an error if it still listens, and nothing of the body is stored.
func TestSendersThatStop(t *testing.T) {
	for name, x := range goldens(leakedKey(1)) {
		if strings.Contains(name, "gzip") || x.platform == "cloudflare" {
			continue // their secret comes at the end of the compressed data
		}
		w := newGoldenWorld(t)
		body := io.MultiReader(strings.NewReader(x.body[:len(x.body)-1]), errReader{io.ErrUnexpectedEOF})
		status, text := w.send("POST", path, body, x.headers...)
		if status != 400 || len(w.Hits()) != 0 {
			t.Errorf("%s: %d %s, %d hits", name, status, text, len(w.Hits()))
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// Messages of Logplex are counted wherever the body is cut; what is not framed is counted by its lines.
func TestFramesAreCounted(t *testing.T) {
	body := frame("<1>1 a\nb\n") + frame("<1>1 c") + "\n" + frame("<1>1 d")
	for cut := range len(body) {
		c := &lineCounter{framed: true}
		_, _ = c.Write([]byte(body[:cut])) // it never fails
		_, _ = c.Write([]byte(body[cut:]))
		is.Equal(t, c.count(), 3, "cut at %d … messages", cut)
	}
	for _, text := range []string{"one\ntwo", "99 one\ntwo", "0 \n1", "123456789 x\n"} {
		c := &lineCounter{framed: true}
		_, _ = c.Write([]byte(text))
		if want := uint64(bytes.Count([]byte(text), []byte("\n"))); c.count() < want || c.count() > want+1 {
			t.Errorf("%q: %d lines", text, c.count())
		}
	}
	array := `[{"a":1},{"a":2},{"a":3}]`
	for cut := range len(array) {
		c := &lineCounter{}
		_, _ = c.Write([]byte(array[:cut]))
		_, _ = c.Write([]byte(array[cut : cut+1]))
		_, _ = c.Write([]byte(array[cut+1:]))
		is.Equal(t, c.count(), 3, "cut at %d … elements", cut)
	}
}

// Applications of a body's parts are known as long as their text may be reported, and no longer.
func TestOriginsAreBounded(t *testing.T) {
	var o origins
	const step = 100
	most := 0
	for i := range 100_000 {
		o.add(int64(i*step), fmt.Sprint(i%3))
		most = max(most, len(o.list))
		back := max(0, i-originReach/step)
		must.Equal(t, o.at(int64(back*step+1)), fmt.Sprint(back%3), "%d", i)
	}
	if most > 3*originReach/step {
		t.Errorf("%d in memory", most)
	}
	if o.at(-1) != "" || !slices.IsSortedFunc(o.list, func(a, b origin) int { return int(a.from - b.from) }) {
		t.Errorf("%d origins", len(o.list))
	}
}

// The setting of a drain goes before what its requests look like.
func TestPlatformIsSet(t *testing.T) {
	w := newGoldenWorld(t)
	for platform, want := range map[string]string{
		leak.PlatformGeneric: `202 {"lines":1,"bytes":1,"hits":0}`, leak.PlatformHeroku: "200 ",
		leak.PlatformVercel:     `200 {"lines":1,"bytes":1,"hits":0}`,
		leak.PlatformCloudflare: `200 {"lines":1,"bytes":1,"hits":0}`,
	} {
		w.to.Platform = platform
		status, text := w.send(http.MethodPost, path, strings.NewReader("x"), firehoseRequest, "1")
		is.Equal(t, fmt.Sprint(status, " ", strings.TrimSpace(text)), want, platform)
	}
}

// pieces reads a text in pieces of a few bytes, whose lengths follow from cuts.
type pieces struct {
	text []byte
	cuts uint64
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.text[:min(len(p.text), int(p.cuts&7)+1)])
	p.text, p.cuts = p.text[n:], p.cuts>>3|p.cuts<<61
	return n, nil
}

// readFirehose returns the request id and the records that the drain reads of a body.
func readFirehose(body []byte, cuts uint64) (id string, records []byte, err error) {
	of := &request{}
	wire := &wireReader{w: httptest.NewRecorder(), body: &pieces{body, cuts}, began: time.Now(), most: maxBody,
		left: maxScanned, pace: func(int) error { return nil }}
	in, err := newSlots().enter("drn_1")
	if err != nil {
		return "", nil, err
	}
	wire.turn = &turn{in: in, waited: wire.addWait}
	err = expandFirehose(of, wire, func(b []byte) error {
		records = append(records, b...)
		return nil
	})
	return of.delivery, records, err
}

// wantFirehose reads a body with encoding/json. It reports false for a body that the drain may refuse.
func wantFirehose(body []byte) (id string, records []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if !json.Valid(body) || !isDelim(d, '{') {
		return "", nil, false
	}
	ok = true
	for ok && d.More() {
		switch name, _ := d.Token(); name {
		case "records":
			ok = isDelim(d, '[')
			for ok && d.More() {
				if ok = isDelim(d, '{'); ok {
					records, ok = wantRecord(d, records)
				}
			}
			ok = ok && isDelim(d, ']')
		case "requestId":
			text, isText := nextToken(d).(string)
			if ok = isText && len(text) <= maxDelivery && isASCII(text); id == "" {
				id = text
			}
		default:
			ok = skipValue(d) && len(name.(string)) <= maxMemberName
		}
	}
	return id, records, ok
}

// wantRecord reads a record, whose first brace is read, and appends it decoded.
func wantRecord(d *json.Decoder, records []byte) ([]byte, bool) {
	for d.More() {
		name, _ := nextToken(d).(string)
		if name != "data" {
			if !skipValue(d) || len(name) > maxMemberName {
				return records, false
			}
			continue
		}
		text, isText := nextToken(d).(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			return records, false
		}
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b, 8}) {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return records, false
			}
			if data, err = io.ReadAll(io.LimitReader(z, 1<<20)); err != nil {
				return records, false
			}
		}
		records = append(append(records, data...), '\n')
	}
	return records, isDelim(d, '}')
}

func nextToken(d *json.Decoder) json.Token {
	t, _ := d.Token() // the text is valid
	return t
}

func isDelim(d *json.Decoder, want json.Delim) bool { return nextToken(d) == want }

// skipValue skips a value, and reports whether the drain skips it too.
func skipValue(d *json.Decoder) bool {
	deepest := 0
	for depth := 0; ; {
		switch t := nextToken(d).(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if len(t) > maxMemberName { // it may be a name
				deepest = maxSkipDepth
			}
		}
		if deepest = max(deepest, depth); depth == 0 {
			return deepest < maxSkipDepth
		}
	}
}

func isASCII(text string) bool {
	for _, c := range []byte(text) {
		if c == 0 || c > 0x7e {
			return false
		}
	}
	return true
}

// The drain reads of Firehose's bodies what encoding/json reads, however the connection cuts them.
func FuzzFirehose(f *testing.F) {
	record := base64.StdEncoding.EncodeToString
	for _, body := range []string{
		`{"requestId":"ed4acda5","timestamp":1578090901599,"records":[{"data":"` + record([]byte("one")) + `"},{"data":""}]}`,
		`{"records":[{"data":"` + record([]byte(gzipped("two"))) + `","x":[1,{"a":null}]}],"requestId":"a\u0062\/\"c"} `,
		` { "a" : true , "records" : [ { } , { "data" : "\u0051UI=" } ] }`, `{"records":[]}`, `{}`,
		`{"requestId":"","requestId":"x"}`,
		`{"records":[{"data":"QQ==QQ=="}]}`, `{"records":[{"data":"QUI\n="}],"n":-1.5e+3,"s":"\ud83d\ude00"}`,
	} {
		f.Add([]byte(body), uint64(0x123456789abcdef))
		f.Add([]byte(body), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, cuts uint64) {
		if len(body) > 4<<10 {
			return
		}
		id, records, err := readFirehose(body, cuts)
		wantID, want, ok := wantFirehose(body)
		if ok && (err != nil || id != wantID || !bytes.Equal(records, want)) {
			t.Errorf("read %q %q (%v), want %q %q", id, records, err, wantID, want)
		}
		otherID, other, otherErr := readFirehose(body, 0x9e3779b97f4a7c15)
		if otherID != id || (otherErr == nil) != (err == nil) || err == nil && !bytes.Equal(records, other) {
			t.Errorf("cut otherwise: %q %q (%v), want %q %q (%v)", otherID, other, otherErr, id, records, err)
		}
	})
}
