package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/leaktest"
	"github.com/eventrelay/relay/test/must"
)

const (
	dsnID     = "dsn_1"
	publicKey = "pkThePublicKeyOfTheDSN"
	path      = PathPrefix + dsnID + pathSuffix + "?k=" + publicKey + "&v=1"
)

var scanner = sync.OnceValue(func() *secrets.Scanner {
	s, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		panic(err)
	}
	return s
})

// world is an Intake with a configuration and a log in memory.
type world struct {
	*leaktest.World
	in     *Intake
	to     leak.DSN
	anyDSN bool // every id is one of a DSN
	logs   bytes.Buffer
	batch  int // number of the last one
	now    time.Time
}

func newWorld(tb testing.TB, platform string) *world {
	w := &world{World: leaktest.New(tb),
		now: time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC),
		to:  leak.DSN{Meta: entity.Meta{ID: dsnID, Account: "acc_1"}, Name: "shop", Version: 1, Platform: platform}}
	limiter := must.Get(
		limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(tb)
	w.in = New(Deps{
		Deps: intake.Deps{
			Node: "node-1", Partitions: leaktest.Partitions, Metrics: prometheus.NewRegistry(), Producer: w,
			Findings: limiter.NewDistinct("report-findings", intake.NewFindingsSpan),
			Now:      func() time.Time { return w.now }, Front: &web.Front{Log: slog.New(slog.NewTextHandler(&w.logs, nil))},
		},
		Config: w, Scanner: scanner(),
		Minutes: limiter.NewWindow("report-requests", time.Minute), Days: limiter.NewWindow("report-quota", DaySpan),
	})
	return w
}

// DSNByKey implements Configuration.
func (w *world) DSNByKey(id, key string) *leak.DSN {
	if id != dsnID && !w.anyDSN || key != publicKey {
		return nil
	}
	to := w.to
	to.ID = id
	return &to
}

func (w *world) RemainingFindings(string, finding.Severity) int { return 10_000 }

// request sends a request and returns its answer, which any origin may read.
func (w *world) request(r *http.Request) *httptest.ResponseRecorder {
	w.TB.Helper()
	rec := httptest.NewRecorder()
	w.in.Handler().ServeHTTP(rec, r)
	if h := rec.Header(); h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Access-Control-Expose-Headers") != "Retry-After" {
		w.TB.Errorf("%s %s: %d without CORS: %v", r.Method, r.URL, rec.Code, h)
	}
	return rec
}

// send sends a body and returns the answer, whose status must be want.
func (w *world) send(want int, body string) *httptest.ResponseRecorder {
	w.TB.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	rec := w.request(r)
	must.Equal(w.TB, rec.Code, want, rec.Body)
	return rec
}

// leakedKey returns a made-up secret, and its salted hash as the SDK sends it.
func leakedKey(n int) (text, fp1 string) {
	text = fmt.Sprintf("sk_li"+"ve_q8ZkT2vN4xW7yR1mB5cJ%06d", n)
	keys := leaktest.Keys
	sum := keys.SaltedHash([]byte(text))
	return text, base64.RawURLEncoding.EncodeToString(sum[:])
}

// object is a JSON object.
type object map[string]any

// reportOf returns a valid report of a made-up secret.
func reportOf(n int) object {
	text, fp1 := leakedKey(n)
	return object{"type": "log", "rule": "stripe-secret-live", "masked": "sk_live_***" + text[len(text)-4:], "fp1": fp1,
		"count": 3, "first_at": "2026-08-21T22:24:00.000Z", "last_at": "2026-08-21T22:24:35.000Z",
		"where": object{"logger": "console.error", "file": "src/pay.js", "line": 41, "column": 9, "function": "charge"}}
}

// with returns a copy of an object with other members.
func (o object) with(members ...any) object {
	out := object{}
	for name, value := range o {
		out[name] = value
	}
	for i := 0; i < len(members); i += 2 {
		if out[members[i].(string)] = members[i+1]; members[i+1] == nil {
			delete(out, members[i].(string))
		}
	}
	return out
}

// batchOf returns a batch of reports with a new id.
func (w *world) batchOf(reports ...object) object {
	w.batch++
	if reports == nil {
		reports = []object{}
	}
	return object{"id": fmt.Sprintf("%022d", w.batch), "sdk": object{"name": "relay.javascript", "version": "0.1.0"},
		"sent_at": "2026-08-21T22:24:36.000Z", "environment": "production", "release": "a1b2", "reports": reports}
}

func (o object) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// report sends reports and returns what the 202 says.
func (w *world) report(reports ...object) (got answer) {
	w.TB.Helper()
	rec := w.send(202, w.batchOf(reports...).String())
	must.Do(w.TB, json.Unmarshal(rec.Body.Bytes(), &got))
	return got
}
