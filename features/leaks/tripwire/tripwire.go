// Package tripwire turns uses of tripwires into hits. A tripwire is an API key or an ingest URL that nobody has a
// reason to use: its user has found it (docs/design/tripwires.md).
//
// A tripwire must be indistinguishable from the real thing. So the API and the agent server ask CheckKey
// after each key that they refuse: a tripwire's and a wrong key take the same way, get the same answer, and wait for
// nothing. Package ingest answers at a URL as an endpoint that was just created does, and stores the same record, whose
// source says that it is a use (event.Source.IsUse). The dispatcher reads it, asks Hit, and stores the hit.
//
// Guarantees: a request that gets a 2xx for an event at a URL has its use in the log, and a use that is read again
// makes the same hit. Other hits wait in a queue and are produced within moments; what is lost when the queue is full
// or the log takes nothing is counted. Hits are bounded: in a day a tripwire makes maxRows rows of its own and then one
// a minute, on each node. Begin with Wires.CheckKey and Wires.Hit.
package tripwire

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Configuration is the part of the configuration that tripwires need; see config.Control.
type Configuration interface {
	TripwireByKey(text string) (id string)
	TripwireByToken(token string) *leak.Tripwire
	Tripwire(id string) (*leak.Tripwire, entity.Presence)
	FakeEndpoint(t *leak.Tripwire) *config.Endpoint
	EndTripwireTest(ctx context.Context, id string, used leak.TripwireTest) error
	FindingKeys(ctx context.Context) (finding.Keys, error)
}

// Deps are the dependencies of Wires. All are required.
type Deps struct {
	Log        *slog.Logger
	Metrics    prometheus.Registerer
	Config     Configuration
	Producer   intake.Producer
	Scanner    *secrets.Scanner // masks secrets in what a request says
	Partitions int32            // of the topic findings
	Now        func() time.Time
}

const (
	// maxQueued bounds the uses that wait for their hit. Wrong keys take at most half of it.
	maxQueued = 2048
	// pause is how long a use waits at least: its hit must not take the CPU from the request that is being answered.
	pause    = 250 * time.Millisecond
	maxEnded = 16 // tests that were used and are still in the configuration
	// maxHeader bounds what a hit keeps of a header, in bytes.
	maxHeader = 256
	// endTestTimeout bounds the record that ends a test.
	endTestTimeout = 10 * time.Second
)

// Wires recognises the tripwires of the account.
type Wires struct {
	deps    Deps
	queue   chan use
	ended   chan endedTest
	metrics *metrics
	rows    rows
	tests   tests
}

// New returns Wires and registers their metrics. Run produces what waits in the queue.
func New(deps Deps) *Wires {
	return &Wires{deps: deps, queue: make(chan use, maxQueued), ended: make(chan endedTest, maxEnded),
		metrics: newMetrics(deps.Metrics), tests: tests{used: map[string]leak.TripwireTest{}}}
}

// use is a request with a secret of a tripwire. The tripwire is empty for a wrong key.
type use struct {
	tripwire, secret       string // the secret is config.TripwireKey or config.TripwireURL
	at                     time.Time
	method, agent, referer string
	from                   netip.Addr
	isTest                 bool
	event                  string // evt_…, if its record is in the topic events
}

// useOf returns what a request says of its sender.
func (w *Wires) useOf(tripwire, secret string, r *http.Request) use {
	return use{
		tripwire: tripwire, secret: secret, at: w.deps.Now().UTC(), method: cut(r.Method),
		agent: cut(r.UserAgent()), referer: cut(r.Referer()), from: web.InfoOf(r).Client,
	}
}

// cut returns the beginning of a header in memory of its own: the queue must not keep the headers of requests.
func cut(header string) string { return strings.Clone(header[:min(len(header), maxHeader)]) }

// CheckKey looks whether a refused API key is that of a tripwire. It never waits, and does the same for a wrong key.
func (w *Wires) CheckKey(text string, r *http.Request) {
	w.enqueue(w.useOf(w.deps.Config.TripwireByKey(text), leak.TripwireKey, r))
}

// enqueue queues a use. A wrong key, which needs no hit, is queued too, so that its request does the same work.
func (w *Wires) enqueue(u use) {
	if u.tripwire == "" && len(w.queue) >= maxQueued/2 {
		return // keys that somebody makes up must not displace a tripwire
	}
	select {
	case w.queue <- u:
	default:
		if u.tripwire != "" {
			w.metrics.dropped.WithLabelValues("queue_full").Inc()
		}
	}
}

// Endpoint returns an endpoint that answers at the URL of a tripwire as a new one does, and the source of the record
// that its request stores; nil if no tripwire has the token. Only this decides whether the use is the test that is
// expected, so that a record means the same whenever it is read.
func (w *Wires) Endpoint(token string, r *http.Request) (*config.Endpoint, event.Source) {
	t := w.deps.Config.TripwireByToken(token)
	if t == nil {
		return nil, ""
	}
	source := event.SourceTripwire
	if w.takeTest(t, web.InfoOf(r).Client, w.deps.Now()) {
		source = event.SourceTripwireTest
	}
	return w.deps.Config.FakeEndpoint(t), source
}

// Touch queues the hit of a request at the URL of a tripwire that has stored no record. ep and source are what Endpoint
// has returned.
func (w *Wires) Touch(ep *config.Endpoint, source event.Source, r *http.Request) {
	u := w.useOf(ep.ID, leak.TripwireURL, r)
	u.isTest = source == event.SourceTripwireTest
	w.enqueue(u)
}

// Hit returns the record of the hit of a use that is in the topic events, for the topic findings. It is nil if the
// tripwire was deleted, or if the hit shares a row for which Hit has returned a record.
func (w *Wires) Hit(ctx context.Context, e *event.Event) (partition int32, record *stream.Record, err error) {
	return w.record(ctx, use{
		tripwire: e.Endpoint, secret: leak.TripwireURL, at: e.ReceivedAt().UTC(), method: e.Method,
		agent: cut(e.HeaderValue("User-Agent")), referer: cut(e.HeaderValue("Referer")),
		from: e.RemoteIP, isTest: e.Source == event.SourceTripwireTest, event: e.ID.Text(id.Event),
	})
}

// Run produces the hits in the queue until ctx ends, and then what is left in it. It also ends the tests that were
// used.
func (w *Wires) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			select {
			case u := <-w.queue:
				ctx := running
				if wait.For(running, pause) != nil {
					ctx = context.WithoutCancel(running)
				}
				w.produce(ctx, u)
				w.produceQueued(ctx)
			case <-running.Done():
				w.produceQueued(context.WithoutCancel(running))
				return nil
			}
		}
	})
	group.Go(func() error {
		for {
			select {
			case x := <-w.ended:
				w.endTest(running, x)
			case <-running.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// produceQueued produces what is in the queue.
func (w *Wires) produceQueued(ctx context.Context) {
	for {
		select {
		case u := <-w.queue:
			w.produce(ctx, u)
		default:
			return
		}
	}
}

// endedTest is the test of a tripwire that was used.
type endedTest struct {
	tripwire string
	test     leak.TripwireTest
}

// endTest removes a test that was used from the configuration. If that fails, it ends by itself.
func (w *Wires) endTest(ctx context.Context, x endedTest) {
	ctx, cancel := context.WithTimeout(ctx, endTestTimeout)
	defer cancel()
	if err := w.deps.Config.EndTripwireTest(ctx, x.tripwire, x.test); err != nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot end the test of a tripwire", slog.String("tripwire", x.tripwire),
			slog.Any("error", err))
	}
}

// produce produces the hit of a use, without waiting for the log.
func (w *Wires) produce(ctx context.Context, u use) {
	if u.tripwire == "" {
		return
	}
	partition, record, err := w.record(ctx, u)
	if err != nil {
		w.metrics.dropped.WithLabelValues("no_keys").Inc()
		w.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot make the hit of a tripwire", slog.String("tripwire", u.tripwire),
			slog.Any("error", err))
		return
	}
	if record == nil {
		return
	}
	w.deps.Producer.ProduceUnordered(stream.Findings, partition, record, func(_ *stream.Record, err error) {
		if err != nil {
			w.metrics.dropped.WithLabelValues("log").Inc()
			w.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot store the hit of a tripwire",
				slog.String("tripwire", u.tripwire), slog.Any("error", err))
		}
	})
}

// record returns the record of a use; nil if the tripwire was deleted meanwhile, or see Hit.
func (w *Wires) record(ctx context.Context, u use) (int32, *stream.Record, error) {
	t, _ := w.deps.Config.Tripwire(u.tripwire)
	if t == nil {
		return 0, nil, nil
	}
	keys, err := w.deps.Config.FindingKeys(ctx)
	if err != nil {
		return 0, nil, err
	}
	w.metrics.uses.WithLabelValues(u.secret).Inc()
	// A hit that is not stored is made too: the request after it must not be faster than after a stored one.
	h, isNew := w.hit(t, &keys, u)
	if !isNew {
		return 0, nil, nil
	}
	return finding.PartitionOf(h.Finding, w.deps.Partitions),
		&stream.Record{Key: []byte(h.Finding), Value: h.Encode()}, nil
}

// hit returns the hit of a use, and whether no use in the topic events has made a hit of its row before.
func (w *Wires) hit(t *leak.Tripwire, keys *finding.Keys, u use) (h *finding.Hit, isNew bool) {
	h = &finding.Hit{
		Account: t.Account, At: u.at, N: 1, Source: finding.FromTripwire, Channel: intake.TripwireUsed, Sender: t.ID,
		Method: w.clean(u.method), Agent: w.clean(u.agent), RemoteIP: u.from,
		Location: finding.Location{Source: finding.FromTripwire, Label: t.Label, URL: w.clean(originOf(u.referer))},
		Test:     u.isTest || u.secret == leak.TripwireKey && w.takeTest(t, u.from, u.at),
	}
	if secret := t.Key; secret != nil {
		h.Fingerprint, h.Masked = secret.Fingerprint, t.Masked()
	}
	if secret := t.URL; u.secret == leak.TripwireURL && secret != nil {
		h.Fingerprint, h.Masked = secret.Fingerprint, "****"+secret.Last4
	}
	intake.SetTripwire(h, t, keys)
	h.LocationHash = h.Location.Hash()
	h.ID, isNew = w.rows.hitID(h, u.event)
	return h, isNew
}

// takeTest reports whether a use is the test that is expected. Only the first use is.
func (w *Wires) takeTest(t *leak.Tripwire, from netip.Addr, at time.Time) bool {
	x := t.Test
	if x == nil || x.From != from.String() || !at.Before(x.Until) || !w.tests.take(t.ID, *x) {
		return false
	}
	select {
	case w.ended <- endedTest{t.ID, *x}:
	default: // this node remembers it, and it ends by itself
	}
	return true
}

// originOf returns the origin of a Referer header: the path of another website is nobody's business here.
func originOf(referer string) string {
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (w *Wires) clean(text string) string { return intake.CleanText(w.deps.Scanner, text) }

// maxRows is how many uses of a tripwire in a UTC day have a row of their own in the store, on each node. Then all uses
// in a minute share one, on all nodes together: the row counts one, whatever the minute had.
const maxRows = 100

// rows gives hits their ids, which decide what shares a row.
type rows struct {
	mu   sync.Mutex
	date string          // UTC day
	of   map[string]*day // by finding: tests do not count as uses
}

// day is what a finding's hits have had in a day.
type day struct {
	rows   int
	minute string // the last one whose shared row has a hit of a use in the topic events
}

// hitID returns Hit.ID of a hit. event is the record of its use in the topic events, empty if there is none: a record
// that is read again gets the same row. isNew is false if an earlier use of such records has the row already.
func (x *rows) hitID(h *finding.Hit, event string) (hitID [16]byte, isNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if date := h.At.Format(time.DateOnly); date > x.date { // a record that is read late counts in the present day
		x.date, x.of = date, map[string]*day{}
	}
	of := x.of[h.Finding]
	if of == nil {
		of = &day{}
		x.of[h.Finding] = of
	}
	if of.rows < maxRows {
		of.rows++
		if event == "" {
			var random [16]byte
			rand.Read(random[:]) // never fails: crypto/rand ends the process instead
			event = string(random[:])
		}
		return finding.HitID(h.Location.TripwireID, event, 0), true
	}
	minute := "minute " + h.At.Truncate(time.Minute).Format(time.RFC3339)
	if isNew = event == "" || of.minute != minute; event != "" {
		of.minute = minute
	}
	return finding.HitID(h.Location.TripwireID, minute, 0), isNew
}

// tests remembers the tests that were used on this node, until the configuration says so.
type tests struct {
	mu   sync.Mutex
	used map[string]leak.TripwireTest // by tripwire: the newest
}

// take reports whether a test was not used before, and takes it.
func (x *tests) take(tripwire string, test leak.TripwireTest) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.used, func(_ string, old leak.TripwireTest) bool { return test.Until.Sub(old.Until) > time.Hour })
	if x.used[tripwire] == test {
		return false
	}
	x.used[tripwire] = test
	return true
}
