// Package report receives the reports of applications with the SDK at {base_url}/api/{dsn}/reports and turns them into
// hits. docs/design/reports.md is the format.
//
// The DSN of a browser application is public, so anybody can send reports: nothing in them is believed. Each member is
// checked (batch.go) and scanned for secrets again, and each mask must have the shape of its rule's. Reports of
// browsers are unverified: they are high at most, cost nothing, open nothing again, and make few findings a day
// (hits.go).
//
// The answer 202 waits until the log has acknowledged the hits. A batch that is sent again makes the same hits, which
// count once. Every answer allows any origin: without that, a browser shows an error as a failure of the network. Begin
// with Intake.serve.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// PathPrefix precedes the id of a DSN, pathSuffix follows it.
const (
	PathPrefix = "/api/"
	pathSuffix = "/reports"
)

// Configuration is the part of the configuration that reports need.
type Configuration interface {
	// DSNByKey returns the DSN with that id and public key; nil if there is none.
	DSNByKey(id, publicKey string) *leak.DSN
	intake.Configuration
}

// Window counts occurrences of keys within a span; see limit.Window.
type Window interface {
	AddMany(ctx context.Context, key string, n int) int
	Claim(ctx context.Context, key string, most int) (wait time.Duration)
}

// Deps are the dependencies of an Intake. All are required.
type Deps struct {
	intake.Deps
	Config  Configuration
	Scanner *secrets.Scanner
	Minutes Window // requests and rows of each DSN, in a minute
	Days    Window // reports and rows of each DSN and day, for DaySpan
}

// DaySpan is how long Deps.Days counts: longer than the day that is part of its keys.
const DaySpan = 25 * time.Hour

// Intake serves the URLs of all DSNs.
type Intake struct {
	deps    Deps
	front   *web.Front
	stage   *intake.Stage
	rules   map[string]*secrets.Rule
	running slots
	// unzipping holds one element for each body that is decompressed, of half the node's cores.
	unzipping chan struct{}
	rows      map[string]rowBounds // by platform
	sums      sums
	metrics   *metrics
}

const (
	// bodyTimeout is how long a body may take. The SDK waits 10 s for the answer.
	bodyTimeout = 10 * time.Second
	// maxRequests is how many requests of a DSN are accepted in a minute.
	maxRequests = 600
)

// New returns an Intake and registers its metrics. Run reports what it receives.
func New(deps Deps) *Intake {
	front := *deps.Front
	front.BodyTimeout = cmp.Or(front.BodyTimeout, bodyTimeout)
	in := &Intake{
		deps: deps, front: &front, stage: newStage(deps), rules: map[string]*secrets.Rule{},
		running:   slots{most: maxRunning, ofDSN: maxRunningOfDSN, ofClient: maxRunningOfClient},
		unzipping: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		rows:      maxRows,
		metrics:   newMetrics(deps.Metrics),
		sums:      sums{node: deps.Node, byFinding: map[string]*sum{}, ofSender: map[string]int{}},
	}
	rules := deps.Scanner.Rules()
	for i := range rules {
		in.rules[rules[i].ID] = &rules[i]
	}
	return in
}

// Run reports what DSNs received, every two seconds, and once more when ctx ends.
func (in *Intake) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { in.runSums(ctx) })
	defer running.Wait()
	return in.stage.Run(ctx, in.deps.Now)
}

// Handler answers requests at PathPrefix.
func (in *Intake) Handler() http.Handler { return AllowAnyOrigin(in.front.Wrap(in.serve)) }

// AllowAnyOrigin lets scripts of all pages read the answers of a handler, also those to errors.
func AllowAnyOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "Retry-After")
		next.ServeHTTP(w, r)
	})
}

// serve answers one request: 202 when its hits are durable.
func (in *Intake) serve(w http.ResponseWriter, r *http.Request) error {
	web.InfoOf(r).Route = PathPrefix + "{dsn}" + pathSuffix
	id, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, PathPrefix), pathSuffix)
	if !ok || strings.Contains(id, "/") {
		return web.Missing("there is no such route")
	}
	if err := web.CheckHeader(r); err != nil {
		return &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Type: web.InvalidRequest, Message: err.Error()}
	}
	const allowed = "POST, OPTIONS"
	switch r.Method {
	case http.MethodPost:
		return in.serveBatch(w, r, id)
	case http.MethodOptions: // the SDK needs no permission; other clients may ask for it
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Content-Type, Content-Encoding")
		h.Set("Access-Control-Max-Age", "86400")
		h.Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Allow", allowed)
	return &web.Error{Status: http.StatusMethodNotAllowed, Type: web.InvalidRequest, Message: "send reports with POST"}
}

// answer is the body of a 202.
type answer struct {
	Accepted int         `json:"accepted"`
	Rejected []rejection `json:"rejected"`
}

// rejection says why a report was not accepted.
type rejection struct {
	Index  int    `json:"index"`
	Reason reason `json:"reason"`
}

func (in *Intake) serveBatch(w http.ResponseWriter, r *http.Request, id string) error {
	to := in.deps.Config.DSNByKey(id, r.URL.Query().Get("k"))
	if to == nil {
		in.stage.Requests.WithLabelValues("unknown_dsn").Inc()
		return &web.Error{Status: http.StatusUnauthorized, Type: web.InvalidAPIKey,
			Message: "the DSN is unknown or revoked; copy it from the page of the application again"}
	}
	got, counted, err := in.receive(r, to)
	in.stage.Count(to.Account, to.ID, counted, err)
	if err != nil {
		return err
	}
	body, err := json.Marshal(got)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body) // the client may have left
	return nil
}

// receive checks a batch, and produces its hits.
func (in *Intake) receive(r *http.Request, to *leak.DSN) (answer, intake.Counted, error) {
	if !to.AllowsOrigin(r.Header.Get("Origin")) {
		return answer{}, intake.Counted{}, &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "the DSN does not allow reports from pages of this origin; add it to allowed_origins"}
	}
	if wait := in.deps.Minutes.Claim(r.Context(), to.ID, maxRequests); wait > 0 {
		return answer{}, intake.Counted{}, intake.RateLimited(wait, "the DSN takes at most %d requests a minute", maxRequests)
	}
	_, leave, err := in.running.enter(to.ID, web.InfoOf(r).Client)
	if err != nil {
		return answer{}, intake.Counted{}, err
	}
	defer leave()
	body, err := in.readBody(r, to.Platform)
	counted := intake.Counted{Bytes: uint64(len(body))}
	if err != nil {
		return answer{}, counted, err
	}
	b, err := parseBatch(body)
	if err != nil {
		return answer{}, counted, err
	}
	counted.Platform = b.SDK.Name + " " + b.SDK.Version
	if in.countDropped(b.dropped()) {
		counted.LastError = "masking_failed"
	}
	// The body is complete: store its hits even if the client disconnects now.
	got, n, err := in.store(context.WithoutCancel(r.Context()), r, to, b)
	counted.Lines, counted.Hits = uint64(len(b.Reports)), n
	return got, counted, err
}

// countDropped counts what the SDK could not report, and reports whether it could not mask lines.
func (in *Intake) countDropped(d dropped) (maskingFailed bool) {
	for why, n := range map[string]uint32{"queue_full": d.QueueFull, "sampled": d.Sampled, "send_failed": d.SendFailed,
		"masking_failed": d.MaskingFailed} {
		in.metrics.dropped.WithLabelValues(why).Add(float64(min(n, maxCount)))
	}
	return d.MaskingFailed > 0
}

// Requests whose bodies are read at the same time, each of maxServerBody bytes, twice with gzip. Whoever sends slowly
// leaves room for other DSNs, and for other clients of the same DSN.
const (
	maxRunning         = 512 // of this node
	maxRunningOfDSN    = 128
	maxRunningOfClient = 64 // of one address, or /64 of IPv6
)

// slots bounds the requests whose bodies are being read.
type slots struct {
	intake.Slots
	most, ofDSN, ofClient int
}

var (
	errNodeFull = web.ServiceUnavailable(nil, "this node reads as many reports as it can; send the batch again")
	errFull     = intake.RateLimited(time.Second,
		"too many batches of this DSN or from this address are arriving; send the batch again")
)

// enter takes a slot, or returns the 429 of the DSN or the client, or the 503 of the node. client is invalid for a
// connection without addresses, which has no bound of its own.
func (s *slots) enter(dsn string, client netip.Addr) (turn chan struct{}, leave func(), err error) {
	bounds := []intake.Bound{{Of: "node", Most: s.most, Full: errNodeFull}, {Of: dsn, Most: s.ofDSN, Full: errFull}}
	if client = web.NetworkOf(client); client.IsValid() {
		bounds = append(bounds, intake.Bound{Of: client, Most: s.ofClient, Full: errFull})
	}
	return s.Enter(bounds...)
}
