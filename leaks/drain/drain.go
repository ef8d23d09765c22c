// Package drain receives the lines of customers' logs at {base_url}/drain/{id}/{token} and turns the secrets in them
// into hits. The lines are scanned while they arrive and are kept nowhere.
//
// Vercel, Heroku, Firehose and Cloudflare are recognised from the request, and answered as each expects (platform.go).
// A body is text, JSON or one JSON object a line, plain or gzip; those of Firehose hold base64 (firehose.go). Its raw
// bytes are scanned before anything is parsed; only around a secret the line is read, for the application that wrote it
// and its time (line.go). The hits of one
// request are merged (hits.go), bounded (bounds.go) and produced to the topic findings. The client gets its 2xx when
// all of them are acknowledged. If Kafka is unavailable it gets a 5xx and sends the lines again: a hit's identity
// derives from the bytes of the body, so what was stored before counts once.
//
// The path is a capability: it is in no log, metric or error. The text of a secret is in memory only while it is hashed
// and masked. Bodies are bounded in bytes, time and rate, before and after decompression (body.go).
//
// What each drain received is counted, and reported to the topic every two seconds (package intake): people see within
// seconds that their drain works. Begin with Drain.serve.
package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// PathPrefix precedes the id and the token of a drain in its URL.
const PathPrefix = "/drain/"

// Config configures a Drain.
type Config struct {
	Node       string // name of this node
	Partitions int32  // of the topic findings
}

// Configuration is the part of the configuration that drains need.
type Configuration interface {
	// DrainByToken returns the drain with that id and token; see config.Control.
	DrainByToken(id, token string) (*config.Drain, config.Presence)
	// DrainSecrets opens the secrets of a drain.
	DrainSecrets(d *config.Drain) (config.DrainSecrets, error)
	// FindingKeys returns the keys of the account's findings.
	FindingKeys(ctx context.Context) (finding.Keys, error)
	intake.Configuration
	intake.LeakedKeys
	intake.Tripwires
	// CustomRules returns the account's own rules, and a revision that changes with them.
	CustomRules() (rules []secrets.Custom, revision int64)
}

// Tokens takes tokens from buckets that hold those of one second and are shared by all nodes; see limit.Limiter. If
// wait is positive, no token was taken.
type Tokens interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
	TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration)
}

// Window counts occurrences of keys within a minute; see limit.Window.
type Window interface {
	AddMany(ctx context.Context, key string, n int) int
}

// Deps are the dependencies of a Drain. All are required.
type Deps struct {
	Metrics  prometheus.Registerer
	Config   Configuration
	Scanner  *secrets.Scanner // of built-in rules; those of the account are added
	Producer intake.Producer
	Tokens   Tokens
	Records  Window          // hit records of each drain
	Findings intake.Distinct // new findings of each drain and day
	Now      func() time.Time
	Front    *web.Front
}

// Drain serves the URLs of all drains.
type Drain struct {
	cfg      Config
	deps     Deps
	front    *web.Front
	metrics  *metrics
	counters *intake.Counters
	bounds   intake.Bounds
	running  *slots
	scanners *secrets.Scanners
}

// New returns a Drain and registers its metrics. Run reports what it receives.
func New(cfg Config, deps Deps) *Drain {
	front := *deps.Front
	front.BodyTimeout = cmp.Or(front.BodyTimeout, bodyGrace)
	d := &Drain{
		cfg: cfg, deps: deps, front: &front, metrics: newMetrics(deps.Metrics),
		counters: intake.NewCounters(cfg.Node, cfg.Partitions, deps.Producer), running: newSlots(),
		bounds: intake.Bounds{Config: deps.Config, Findings: deps.Findings}, scanners: secrets.NewScanners(deps.Scanner),
	}
	front.Respond = d.respond
	return d
}

// Handler answers requests at PathPrefix.
func (d *Drain) Handler() http.Handler {
	return d.front.Wrap(func(w http.ResponseWriter, r *http.Request) error {
		web.InfoOf(r).Route = PathPrefix + "{drain}/{token}"
		return d.serve(w, r)
	})
}

// serve answers one request: 202, or as its platform expects, when its hits are durable, or at once while the drain is
// paused.
func (d *Drain) serve(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckHeader(r); err != nil {
		return &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Type: web.InvalidRequest, Message: err.Error()}
	}
	id, token := credentials(r)
	to, presence := d.deps.Config.DrainByToken(id, token)
	switch {
	case presence == config.Deleted:
		return &web.Error{Status: http.StatusGone, Type: web.NotFound, Message: "this drain was deleted; stop sending to it"}
	case to == nil:
		return web.Missing("no drain has this URL")
	}
	secret, err := d.deps.Config.DrainSecrets(to)
	if err != nil {
		return err
	}
	if secret.VerifyCode != "" {
		w.Header().Set(vercelVerify, secret.VerifyCode)
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		x := newRequest(r, to, secret.Signing)
		return x.refuse(d.serveLines(w, r, x))
	case http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return nil
	case http.MethodGet:
		if secret.VerifyCode != "" { // Vercel tries the URL
			w.WriteHeader(http.StatusOK)
			return nil
		}
	}
	w.Header().Set("Allow", "POST, PUT, HEAD")
	return &web.Error{Status: http.StatusMethodNotAllowed, Type: web.InvalidRequest,
		Message: "send lines with POST or PUT"}
}

// serveLines answers a request with lines.
func (d *Drain) serveLines(w http.ResponseWriter, r *http.Request, x *request) error {
	if x.to.Paused {
		web.Discard(r)
		d.metrics.requests.WithLabelValues("paused").Inc()
		x.answer(w, d.deps.Now(), received{Paused: true})
		return nil
	}
	got, err := d.receive(w, r, x)
	d.count(x, got, err)
	if err != nil {
		return err
	}
	x.answer(w, d.deps.Now(), got)
	return nil
}

// received is the body of an answer.
type received struct {
	Paused bool   `json:"paused,omitempty"`
	Lines  uint64 `json:"lines"`
	Bytes  uint64 `json:"bytes"` // uncompressed
	Hits   uint64 `json:"hits"`  // secrets found, each as often as it occurred
}

// receive scans the body and produces its hits.
func (d *Drain) receive(w http.ResponseWriter, r *http.Request, x *request) (received, error) {
	if err := d.admit(x.to.ID); err != nil {
		return received{}, err
	}
	if err := x.checkSigned(r); err != nil {
		return received{}, err
	}
	in, err := d.running.enter(x.to.ID)
	if err != nil {
		return received{}, err
	}
	defer in.leave()
	found := d.newHits(r, x)
	got, hash, err := d.scan(w, r, in, found)
	if err != nil {
		return got, err
	}
	if err := x.checkSignature(r); err != nil {
		return got, err
	}
	if refused, ok := errors.AsType[*web.Error](found.err); ok {
		return got, refused
	}
	if found.err != nil {
		return got, web.ServiceUnavailable(found.err, "the lines could not be checked now; send them again")
	}
	got.Hits = found.matches
	// The body is complete: store its hits even if the client disconnects now.
	return got, d.store(context.WithoutCancel(r.Context()), found, hash)
}

// Rates of one drain, over all nodes.
const (
	maxRequestsPerSecond = 200
	maxBytesPerSecond    = 50 << 20 // uncompressed
)

// Classes of token buckets. The key within a class is the drain's id.
const (
	limitRequests = "drain-requests"
	limitBytes    = "drain-bytes"
)

// admit takes the token of a request, or returns the 429.
func (d *Drain) admit(id string) error {
	if wait, _ := d.deps.Tokens.TakeSharedToken(limitRequests, id, maxRequestsPerSecond); wait > 0 {
		return rateLimited(wait, fmt.Sprintf("takes at most %d requests a second; send more lines in each",
			maxRequestsPerSecond))
	}
	return nil
}

func rateLimited(wait time.Duration, what string) error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: "the drain " + what}
}

// count counts a request for the drain's page and in the metrics.
func (d *Drain) count(x *request, got received, err error) {
	result := resultOf(err)
	d.metrics.requests.WithLabelValues(result).Inc()
	d.metrics.bytes.Add(float64(got.Bytes))
	c := intake.Counted{Requests: 1, Lines: got.Lines, Bytes: got.Bytes, Hits: got.Hits, Platform: x.detected}
	if err != nil {
		c.Rejected, c.LastError = 1, result
	}
	d.counters.Add(x.to.Account, x.to.ID, d.deps.Now(), c)
}

// Run reports what drains received, every two seconds, and once more when ctx ends.
func (d *Drain) Run(ctx context.Context) error { return d.counters.Run(ctx, d.deps.Now) }

// resultOf returns the word for the outcome of a request, in the metrics and as last_error of a drain.
func resultOf(err error) string {
	e, ok := errors.AsType[*web.Error](err)
	switch {
	case err == nil:
		return "accepted"
	case !ok:
		return "failed"
	}
	switch e.Status {
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusForbidden:
		return "bad_signature"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusRequestTimeout:
		return "too_slow"
	case http.StatusUnsupportedMediaType:
		return "unsupported_encoding"
	case http.StatusServiceUnavailable:
		return "unavailable"
	default:
		return "unreadable"
	}
}
