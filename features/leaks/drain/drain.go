// Package drain receives the lines of customers' logs at {base_url}/drain/{id}/{token} and turns the secrets in them
// into hits. The lines are scanned while they arrive and are kept nowhere.
//
// Vercel, Heroku, Firehose and Cloudflare are recognised from the request, and answered as each expects (platform.go).
// A body is text, JSON or one JSON object a line, plain or gzip; those of Firehose hold base64 (firehose.go). Its raw
// bytes are scanned before anything is parsed; only around a secret the line is read, for the application that wrote it
// and its time (line.go). The hits of one
// request are merged (hits.go), bounded and produced to the topic findings. The client gets its 2xx when
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
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// PathPrefix precedes the id and the token of a drain in its URL.
const PathPrefix = "/drain/"

// Configuration is the part of the configuration that drains need.
type Configuration interface {
	// DrainByToken returns the drain with that id and token; see config.Control.
	DrainByToken(id, token string) (*leak.Drain, entity.Presence)
	// DrainSecrets opens the secrets of a drain.
	DrainSecrets(d *leak.Drain) (leak.DrainSecrets, error)
	intake.Configuration
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
	intake.Deps
	Config  Configuration
	Scanner *secrets.Scanner // of built-in rules; those of the account are added
	Tokens  Tokens
	Records Window // hit records of each drain
}

// Drain serves the URLs of all drains.
type Drain struct {
	deps     Deps
	front    *web.Front
	stage    *intake.Stage
	bytes    prometheus.Counter // scanned
	running  *slots
	scanners *secrets.Scanners
}

// New returns a Drain and registers its metrics. Run reports what it receives.
func New(deps Deps) *Drain {
	front := *deps.Front
	front.BodyTimeout = cmp.Or(front.BodyTimeout, bodyGrace)
	d := &Drain{
		deps: deps, front: &front, stage: newStage(deps), running: newSlots(),
		scanners: secrets.NewScanners(deps.Scanner),
		bytes: metric.Counter(deps.Metrics, "relay_drain_scanned_bytes_total",
			"Decompressed bytes that were scanned."),
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
	case presence == entity.Deleted:
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
		d.stage.Requests.WithLabelValues("paused").Inc()
		x.answer(w, d.deps.Now(), received{Paused: true})
		return nil
	}
	got, err := d.receive(w, r, x)
	d.bytes.Add(float64(got.Bytes))
	d.stage.Count(x.to.Account, x.to.ID, intake.Counted{Lines: got.Lines, Bytes: got.Bytes, Hits: got.Hits,
		Platform: x.detected}, err)
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
	if wait, _ := d.deps.Tokens.TakeSharedToken(limitRequests, x.to.ID, maxRequestsPerSecond); wait > 0 {
		return received{}, intake.RateLimited(wait, "the drain takes at most %d requests a second; send more lines in each",
			maxRequestsPerSecond)
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

// Run reports what drains received, every two seconds, and once more when ctx ends.
func (d *Drain) Run(ctx context.Context) error { return d.stage.Run(ctx, d.deps.Now) }
