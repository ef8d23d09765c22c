package drain

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/leaktest"
	"github.com/eventrelay/relay/test/must"
)

const (
	drainID  = "drn_1"
	token    = "thetokenofthedrain"
	path     = PathPrefix + drainID + "/" + token
	ndjson   = "application/x-ndjson"
	deadline = 2 * time.Minute // of what hangs
)

var scanner = sync.OnceValue(func() *secrets.Scanner {
	s, err := intake.NewScanner(&leaktest.World{})
	if err != nil {
		panic(err)
	}
	return s
})

// world is a Drain with a configuration and a log in memory.
type world struct {
	*leaktest.World
	drain    *Drain
	limiter  *limit.Limiter
	registry *prometheus.Registry
	logs     bytes.Buffer
	to       leak.Drain
	deleted  bool
	secrets  leak.DrainSecrets

	own      []secrets.Custom
	revision int64

	room map[finding.Severity]int // for new findings; nil = enough
}

func newWorld(tb testing.TB) *world {
	w := &world{
		World: leaktest.New(tb), registry: prometheus.NewRegistry(),
		to: leak.Drain{Meta: entity.Meta{ID: drainID, Account: "acc_1"}, Name: "production", Version: 1,
			Platform: leak.PlatformAuto},
	}
	var err error
	w.limiter, err = limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	must.Do(tb, err)
	w.drain = w.newDrain(w.registry)
	return w
}

func (w *world) newDrain(registry *prometheus.Registry) *Drain {
	return New(Deps{
		Deps: intake.Deps{
			Node: "node-1", Partitions: leaktest.Partitions, Metrics: registry, Producer: w,
			Findings: w.limiter.NewDistinct("drain-findings", intake.NewFindingsSpan),
			Now:      time.Now, Front: &web.Front{Log: slog.New(slog.NewTextHandler(&w.logs, nil))},
		},
		Config: w, Scanner: scanner(), Tokens: w.limiter, Records: w.limiter.NewWindow("drain-records", time.Minute),
	})
}

// DrainByToken implements Configuration.
func (w *world) DrainByToken(id, given string) (*leak.Drain, entity.Presence) {
	switch {
	case id != drainID:
	case w.deleted:
		return nil, entity.Deleted
	case given == token:
		to := w.to
		return &to, entity.Present
	}
	return nil, entity.Unknown
}

// DrainSecrets implements Configuration.
func (w *world) DrainSecrets(*leak.Drain) (leak.DrainSecrets, error) { return w.secrets, nil }

func (w *world) CustomRules() ([]secrets.Custom, int64) { return w.own, w.revision }

func (w *world) RemainingFindings(sender string, severity finding.Severity) int {
	is.Equal(w.TB, sender, drainID, "asked for the room of")
	if w.room == nil {
		return 10_000
	}
	return w.room[severity]
}

// counts returns the reports in the log.
func (w *world) counts() (all []*finding.Counts) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, r := range w.Records {
		if c, err := finding.DecodeCounts(r.Value); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// send sends a body and returns the status and the body of the answer. headers are pairs of name and value.
func (w *world) send(method, path string, body io.Reader, headers ...string) (int, string) {
	w.TB.Helper()
	answer := w.answered(method, path, body, headers...)
	return answer.Code, answer.Body.String()
}

// answered sends a body and returns the answer.
func (w *world) answered(method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.TB.Helper()
	r := httptest.NewRequestWithContext(w.TB.Context(), method, path, body)
	r.RemoteAddr = "192.0.2.7:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.drain.Handler().ServeHTTP(answer, r)
	return answer
}

// post sends lines and expects a status.
func (w *world) post(want int, body string, headers ...string) string {
	w.TB.Helper()
	status, text := w.send(http.MethodPost, path, strings.NewReader(body), headers...)
	must.Equal(w.TB, status, want, "answered: %s", text)
	return text
}

// metric returns the number of requests with a result.
func (w *world) metric(result string) float64 {
	return testutil.ToFloat64(w.drain.stage.Requests.WithLabelValues(result))
}

// everything returns all that is stored, logged and counted.
func (w *world) everything() string {
	w.TB.Helper()
	var all strings.Builder
	w.Mu.Lock()
	for _, r := range w.Records {
		all.Write(r.Key)
		all.Write(r.Value)
	}
	w.Mu.Unlock()
	all.Write(w.logs.Bytes())
	families := must.Get(w.registry.Gather())(w.TB)
	for _, f := range families {
		all.WriteString(f.String())
	}
	return all.String()
}

// leakedKey returns a secret of a rule with a fingerprint; it is another one for each n.
func leakedKey(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := []byte("sk_" + "live_")
	for i, x := 0, uint64(n)*0x9e3779b97f4a7c15+0x1234567; i < 24; i++ {
		x = x*6364136223846793005 + 1442695040888963407
		text = append(text, letters[x>>33%uint64(len(letters))])
	}
	return string(text)
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // a buffer takes everything
	_ = z.Close()
	return b.String()
}

// testKey is a secret that is marked as a test.
func testKey() string { return apikey.NewTestKey() }

// The key of a tripwire in a log, or its ingest URL, is a hit of the tripwire: seen, and high. The URL of an endpoint
// is none. Made-up keys that take all records of a request do not displace it.
func TestTripwireIsSeenInLogs(t *testing.T) {
	const url = "https://relay.example.com/in/"
	var flood strings.Builder
	for n := range maxRecords + 10 {
		flood.WriteString("key " + leakedKey(n+10) + "\n")
	}
	for _, c := range []struct{ canary, line string }{
		{leakedKey(1), `{"app":"shop","msg":"` + leakedKey(1) + `"}`},
		{leaktest.CanaryToken, `{"app":"shop","msg":"POST ` + url + leaktest.CanaryToken + `"}`},
		{leaktest.CanaryToken, "GET /in/" + leaktest.CanaryToken + "/info/refs 404 a.example"},
	} {
		w := newWorld(t)
		keys := leaktest.Keys
		w.Canary = leaktest.Fingerprint(c.canary)
		w.post(202, c.line+"\nGET "+url+"7b1xz0f3s8m5qk2v9rw4tn6hjc\n")
		h := w.Only()
		if h.Kind != finding.Tripwire || h.Severity != finding.High || h.Billed || h.Channel != "seen" ||
			h.Location.TripwireID != "trw_1" || h.Location.DrainID != drainID || h.Source != finding.Drain ||
			h.Finding != keys.TripwireID("trw_1", false) || strings.Contains(h.Masked, c.canary) {
			t.Errorf("%s: %+v", c.line, h)
		}
		w.post(202, c.line+"\n"+flood.String())
		w.post(202, flood.String()+c.line+"\n")
		seen := 0
		for _, x := range w.Hits() {
			if x.Kind == finding.Tripwire {
				seen++
			}
		}
		if seen != 3 {
			t.Errorf("%s: %d hits of the tripwire, want 3: before made-up keys and behind them", c.line, seen)
		}
	}
}
