package report

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/leak"
)

// Any body gets an answer below 500, and what it leaves in the log is a record that can be read.
func FuzzReports(f *testing.F) {
	w := newWorld(f, leak.DSNServer)
	whole := w.batchOf(reportOf(1), reportOf(2).with("type", "response", "where", object{"status": 200})).String()
	for _, body := range []string{whole, gzipped(whole), whole[:len(whole)/2], "{}", `{"reports":[null]}`,
		w.batchOf(reportOf(3).with("masked", "***", "rule", "custom:x", "fp1", nil)).String(),
		w.batchOf(object{}).with("dropped", object{"queue_full": -1}).String()} {
		f.Add(true, "", []byte(body))
		f.Add(false, "gzip", []byte(body))
	}
	f.Fuzz(func(t *testing.T, server bool, encoding string, body []byte) {
		platform := leak.DSNBrowser
		if server {
			platform = leak.DSNServer
		}
		w := newWorld(t, platform)
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
		if strings.Trim(encoding, "abcdefghijklmnopqrstuvwxyz, ") == "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		if rec := w.request(r); rec.Code >= 500 {
			t.Fatalf("%d: %s", rec.Code, rec.Body)
		}
		w.Hits()
	})
}
