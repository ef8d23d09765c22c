package drain

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
)

// Any body of any platform gets an answer below 500, what it leaves in the log is a record that can be read, and
// nothing but the token opens the drain.
func FuzzDrain(f *testing.F) {
	headers := []string{"", vercelSignature, vercelVerify, herokuFrame, firehoseRequest, "Content-Encoding"}
	for _, body := range []string{
		"level=error key=" + leakedKey(1) + "\n", gzipped(gzipped("a\n" + leakedKey(2))),
		`{"message":"` + leakedKey(3) + `"}`,
		`[{"id":"1","message":"x","timestamp":1}]`, "\x1f\x8b\x08", "83 <40>1 2012-11-30T06:45:29+00:00 host app web.3 - x\n",
		`{"requestId":"a","records":[{"data":"QQ=="}]}`, `{"RayID":"a"}`} {
		for i := range headers {
			f.Add(byte(i), "a", token, []byte(body))
		}
		f.Add(byte(0), `{"api_key":"`+token+`"}`, "other", []byte(body))
	}
	f.Add(byte(0), `{"api_key":"`+strings.Repeat("\xda", maxAccessKey-20)+`"}`, "other", []byte("a\n"))
	f.Fuzz(func(t *testing.T, platform byte, value, given string, body []byte) {
		w := newWorld(t)
		r := httptest.NewRequest("POST", PathPrefix, bytes.NewReader(body))
		r.URL.Path = PathPrefix + drainID + "/" + given
		r.Header.Set("Content-Type", "application/json")
		if name := headers[int(platform)%len(headers)]; name != "" {
			r.Header.Set(name, value)
		}
		rec := httptest.NewRecorder()
		w.drain.Handler().ServeHTTP(rec, r)
		if rec.Code >= 500 {
			t.Fatalf("%d: %s", rec.Code, rec.Body)
		}
		if rec.Code < 300 && given != token {
			t.Fatalf("%q opens the drain: %d", given, rec.Code)
		}
		w.Hits()
		r.URL.Path = PathPrefix + drainID
		r.Header.Set(firehoseAccessKey, value)
		if _, key := credentials(r); len(key) > maxAccessKey {
			t.Fatalf("a token of %d bytes", len(key))
		}
	})
}
