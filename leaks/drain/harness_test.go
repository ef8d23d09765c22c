package drain

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
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

	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	drainID  = "drn_1"
	token    = "thetokenofthedrain"
	path     = PathPrefix + drainID + "/" + token
	ndjson   = "application/x-ndjson"
	deadline = 2 * time.Minute // of what hangs
)

var scanner = sync.OnceValue(func() *secrets.Scanner {
	s, err := intake.NewScanner(tripwires{})
	if err != nil {
		panic(err)
	}
	return s
})

// canaryToken is the token of the ingest URL of a tripwire.
const canaryToken = "3vtestq2mfx8h5n7k0w9c4r6da"

type tripwires struct{}

func (tripwires) TripwireByToken(token string) *config.Tripwire {
	if token != canaryToken {
		return nil
	}
	return &config.Tripwire{}
}

// world is a Drain with a configuration and a log in memory.
type world struct {
	canary   string // fingerprint of the secret of a tripwire
	tb       testing.TB
	drain    *Drain
	limiter  *limit.Limiter
	registry *prometheus.Registry
	logs     bytes.Buffer
	to       config.Drain
	deleted  bool
	keys     map[string]*config.Key // by fingerprint
	keysErr  error                  // of FindingKeys
	secrets  config.DrainSecrets

	own      []secrets.Custom
	revision int64

	mu       sync.Mutex // guards what follows
	known    map[string]bool
	knowsAll bool                     // all findings are known
	room     map[finding.Severity]int // for new findings; nil = enough
	records  []*stream.Record
	answer   func(r *stream.Record) error // of the log; nil = acknowledge
	silent   bool                         // the log does not answer
}

func newWorld(tb testing.TB) *world {
	w := &world{
		tb: tb, registry: prometheus.NewRegistry(), keys: map[string]*config.Key{}, known: map[string]bool{},
		to: config.Drain{Meta: config.Meta{ID: drainID, Account: "acc_1"}, Name: "production", Version: 1,
			Platform: config.PlatformAuto},
	}
	var err error
	w.limiter, err = limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		tb.Fatal(err)
	}
	w.drain = w.newDrain(w.registry)
	return w
}

func (w *world) newDrain(registry *prometheus.Registry) *Drain {
	return New(Deps{
		Deps: intake.Deps{
			Node: "node-1", Partitions: 4, Metrics: registry, Producer: w,
			Findings: w.limiter.NewDistinct("drain-findings", intake.NewFindingsSpan),
			Now:      time.Now, Front: &web.Front{Log: slog.New(slog.NewTextHandler(&w.logs, nil))},
		},
		Config: w, Scanner: scanner(), Tokens: w.limiter, Records: w.limiter.NewWindow("drain-records", time.Minute),
	})
}

// DrainByToken implements Configuration.
func (w *world) DrainByToken(id, given string) (*config.Drain, config.Presence) {
	switch {
	case id != drainID:
	case w.deleted:
		return nil, config.Deleted
	case given == token:
		to := w.to
		return &to, config.Present
	}
	return nil, config.Unknown
}

// DrainSecrets implements Configuration.
func (w *world) DrainSecrets(*config.Drain) (config.DrainSecrets, error) { return w.secrets, nil }

func (w *world) FindingKeys(context.Context) (finding.Keys, error) {
	return finding.Keys{Salt: []byte("0123456789abcdef"), Key: [32]byte{1}}, w.keysErr
}

// TripwireByFingerprint implements intake.Tripwires.
func (w *world) TripwireByFingerprint(fingerprint string) *config.Tripwire {
	if w.canary == "" || w.canary != fingerprint {
		return nil
	}
	return &config.Tripwire{Meta: config.Meta{ID: "trw_1"}, Domain: "dom_1"}
}

func (w *world) LeakedKey(fingerprint string) (*config.Key, bool) {
	key := w.keys[fingerprint]
	return key, key != nil && key.RevokedAt.IsZero()
}

// addKey adds an API key with that text.
func (w *world) addKey(text string, key *config.Key) {
	keys, err := w.FindingKeys(w.tb.Context())
	if err != nil {
		w.tb.Fatal(err)
	}
	w.keys[keys.Fingerprint(keys.SaltedHash([]byte(text)))] = key
}

func (w *world) CustomRules() ([]secrets.Custom, int64) { return w.own, w.revision }

func (w *world) HasFinding(id string) bool { return w.knowsAll || w.known[id] }

func (w *world) RemainingFindings(sender string, severity finding.Severity) int {
	if sender != drainID {
		w.tb.Errorf("asked for the room of %s", sender)
	}
	if w.room == nil {
		return 10_000
	}
	return w.room[severity]
}

// setAnswer sets what the log answers while the drain runs.
func (w *world) setAnswer(answer func(*stream.Record) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// ProduceUnordered implements Producer.
func (w *world) ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error)) {
	if topic != stream.Findings || partition != finding.PartitionOf(string(r.Key), 4) {
		w.tb.Errorf("a record of %s goes to %s-%d", r.Key, topic, partition)
	}
	w.mu.Lock()
	if w.silent {
		w.mu.Unlock()
		return
	}
	var err error
	if w.answer != nil {
		err = w.answer(r)
	}
	if err == nil {
		w.records = append(w.records, r)
	}
	w.mu.Unlock()
	done(r, err)
}

// hits returns the hits in the log, without those that were stored twice.
func (w *world) hits() (all []*finding.Hit) {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]int{}
	for _, r := range w.records {
		h, err := finding.Decode(r.Value)
		if errors.Is(err, finding.ErrNotHit) {
			continue
		}
		if err != nil {
			w.tb.Fatal(err)
		}
		key := h.Finding + string(h.ID[:])
		if i, twice := seen[key]; twice {
			all[i] = h
			continue
		}
		seen[key] = len(all)
		all = append(all, h)
	}
	return all
}

// only returns the one hit of the log.
func (w *world) only() *finding.Hit {
	w.tb.Helper()
	all := w.hits()
	if len(all) != 1 {
		w.tb.Fatalf("%d hits, want one", len(all))
	}
	return all[0]
}

// counts returns the reports in the log.
func (w *world) counts() (all []*finding.Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if c, err := finding.DecodeCounts(r.Value); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// send sends a body and returns the status and the body of the answer. headers are pairs of name and value.
func (w *world) send(method, path string, body io.Reader, headers ...string) (int, string) {
	w.tb.Helper()
	answer := w.answered(method, path, body, headers...)
	return answer.Code, answer.Body.String()
}

// answered sends a body and returns the answer.
func (w *world) answered(method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.tb.Helper()
	r := httptest.NewRequestWithContext(w.tb.Context(), method, path, body)
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
	w.tb.Helper()
	status, text := w.send(http.MethodPost, path, strings.NewReader(body), headers...)
	if status != want {
		w.tb.Fatalf("answered %d %s, want %d", status, text, want)
	}
	return text
}

// metric returns the number of requests with a result.
func (w *world) metric(result string) float64 {
	return testutil.ToFloat64(w.drain.stage.Requests.WithLabelValues(result))
}

// everything returns all that is stored, logged and counted.
func (w *world) everything() string {
	w.tb.Helper()
	var all strings.Builder
	w.mu.Lock()
	for _, r := range w.records {
		all.Write(r.Key)
		all.Write(r.Value)
	}
	w.mu.Unlock()
	all.Write(w.logs.Bytes())
	families, err := w.registry.Gather()
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, f := range families {
		all.WriteString(f.String())
	}
	return all.String()
}

// leak returns a secret of a rule with a fingerprint; it is another one for each n.
func leak(n int) string {
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
