package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const (
	testEndpoint = "ep_1"
	testDest     = "dst_1"
)

// world is a log, a keyring and a configuration that the dispatchers of one test share.
type world struct {
	tb       testing.TB
	stream   stream.Config
	keyring  *seal.Keyring
	producer *stream.Producer
	ids      *id.Generator
	view     *view
	secret   sign.Secret
	now      func() time.Time
	rt       http.RoundTripper
	patience time.Duration        // timeout of reads
	metrics  *prometheus.Registry // of the latest dispatcher
	close    []func()
}

// newWorld starts a log on loopback. Each topic has that many partitions.
func newWorld(tb testing.TB, partitions int) *world {
	tb.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(tb)
	tb.Cleanup(cluster.Close)
	return newWorldOn(tb, stream.Config{Brokers: cluster.ListenAddrs()}, loopback(tb), partitions)
}

// loopback returns a transport to this machine alone.
func loopback(tb testing.TB) *egress.Transport {
	tb.Helper()
	transport := must.Get(egress.NewTransport(egress.Config{Policy: loopbackPolicy()}))(tb)
	tb.Cleanup(transport.CloseIdleConnections)
	return transport
}

func loopbackPolicy() egress.Policy {
	return egress.Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, AllowHTTP: true,
	}
}

func newWorldOn(tb testing.TB, sc stream.Config, rt http.RoundTripper, partitions int) *world {
	tb.Helper()
	sc.Prefix, sc.Log = cmp.Or(sc.Prefix, "t."), testLog()
	if _, err := stream.Migrate(tb.Context(), sc, int32(partitions), 1); err != nil {
		tb.Fatal(err)
	}
	keyring, err := seal.NewKeyring(seal.GenerateKey("test"))
	must.Do(tb, err)
	producer, err := stream.NewProducer(sc, "test")
	must.Do(tb, err)
	w := &world{
		tb: tb, stream: sc, keyring: keyring, producer: producer, ids: id.NewGenerator(nil), view: newView(),
		secret: sign.NewSecret(), now: time.Now, rt: rt, patience: 10 * time.Minute,
	}
	tb.Cleanup(w.shut)
	return w
}

// shut closes what the world opened, in reverse order, once.
func (w *world) shut() {
	for len(w.close) > 0 {
		last := len(w.close) - 1
		w.close[last]()
		w.close = w.close[:last]
	}
	w.producer.Close()
}

func testLog() *slog.Logger {
	if testing.Verbose() && os.Getenv("RELAY_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// endpoint makes an endpoint with destinations at the URLs and adds it to the view. It retries every second unless
// changed.
func (w *world) endpoint(urls ...string) *config.Endpoint {
	w.tb.Helper()
	endpoint := &config.Endpoint{
		ID: testEndpoint, Account: "acc_1", EndpointSettings: config.EndpointSettings{Enabled: true},
		RetryPolicy: retry.Policy{
			Strategy: "linear", IntervalSeconds: 1, MaxAttempts: 50, RetryOn: []string{"3xx", "4xx"},
			RespectRetryAfter: true, MaxRetryAfterSeconds: 86400,
		},
	}
	for i, u := range urls {
		dest := fmt.Sprintf("dst_%d", i+1)
		endpoint.Destinations = append(endpoint.Destinations, config.Destination{
			ID: dest, URL: u,
			DestinationSettings: config.NewDestinationSettings(),
			Secrets: []config.SigningSecret{{
				Secret: w.keyring.SealString(dest, seal.FieldSecret, w.secret.Reveal()),
			}},
		})
	}
	w.view.put(endpoint)
	return endpoint
}

// newEvent makes an event for the destinations dst_1 … of the test endpoint.
func (w *world) newEvent(body string, dests ...string) *event.Event {
	w.tb.Helper()
	eventID := must.Get(w.ids.New(0))(w.tb)
	if dests == nil {
		dests = []string{testDest}
	}
	return &event.Event{
		ID: eventID, Account: "acc_1", Endpoint: testEndpoint, Source: event.SourceProvider, Verdict: event.VerdictVerified,
		Type: "order.created", Method: http.MethodPost, Dests: dests, Body: []byte(body),
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
	}
}

// idsAt makes an id of the given time.
func (w *world) idsAt(at time.Time) (id.ID, error) {
	return id.NewGenerator(func() time.Time { return at }).New(0)
}

// accept appends events to the log.
func (w *world) accept(events ...*event.Event) {
	w.tb.Helper()
	for _, ev := range events {
		w.produce(stream.Events, ev.ID.Partition(), ev.Record())
	}
}

func (w *world) command(work *event.Work) {
	w.tb.Helper()
	record := must.Get(work.Record())(w.tb)
	w.produce(stream.Commands, work.Event.ID.Partition(), record)
}

func (w *world) produce(topic string, partition int32, record *stream.Record) {
	w.tb.Helper()
	must.Do(w.tb, w.producer.ProduceSync(w.tb.Context(), topic, partition, record))
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Version, cfg.CommitEvery = "test", 50*time.Millisecond
	return cfg
}

// start runs a dispatcher until the returned function is called or the test ends.
func (w *world) start(cfg Config, change ...func(*Deps)) (*Dispatcher, func()) {
	w.tb.Helper()
	deps := Deps{
		Log: w.stream.Log, Stream: w.stream, Producer: w.producer, Config: w.view, Updater: w.view, Keyring: w.keyring,
		Transport: w.rt, IDs: w.ids, Now: w.now, Metrics: prometheus.NewRegistry(),
	}
	w.metrics = deps.Metrics.(*prometheus.Registry)
	for _, f := range change {
		f(&deps)
	}
	d := must.Get(New(cfg, deps))(w.tb)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		is.OK(w.tb, d.Run(ctx), "Run")
	})
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.close = append(w.close, stop)
	return d, stop
}

// metric is the sum of a counter over all labels, or over the series that have label as a label value.
func (w *world) metric(name, label string) (sum float64) {
	w.tb.Helper()
	families := must.Get(w.metrics.Gather())(w.tb)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			wanted := label == ""
			for _, l := range m.GetLabel() {
				wanted = wanted || l.GetValue() == label
			}
			if wanted {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// outcomes reads outcomes until done returns true, and returns all of them.
func (w *world) outcomes(done func([]*event.Outcome) bool) []*event.Outcome {
	w.tb.Helper()
	return w.outcomesOf(0, done)
}

func (w *world) outcomesOf(partition int32, done func([]*event.Outcome) bool) []*event.Outcome {
	w.tb.Helper()
	var all []*event.Outcome
	w.scan(stream.Partition{Topic: stream.Outcomes, Index: partition}, func(record *stream.Record) bool {
		outcome := must.Get(event.DecodeOutcome(record))(w.tb)
		all = append(all, outcome)
		return done(all)
	})
	return all
}

// scan reads a partition from its start until each returns true.
func (w *world) scan(p stream.Partition, each func(*stream.Record) bool) {
	w.tb.Helper()
	reader, err := stream.NewReader(w.stream, "test")
	must.Do(w.tb, err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(w.tb.Context(), w.patience)
	defer cancel()
	err = reader.Read(ctx, p, 0, func(record *stream.Record) error {
		if each(record) {
			return stream.ErrStop
		}
		return nil
	})
	must.Do(w.tb, err, "read %s", p.Topic)
}

// count returns a condition that holds when n outcomes have one of the statuses; all when none is given.
func count(n int, statuses ...event.Status) func([]*event.Outcome) bool {
	return func(all []*event.Outcome) bool {
		found := 0
		for _, outcome := range all {
			for _, s := range statuses {
				if outcome.Status == s {
					found++
				}
			}
		}
		return found >= n || len(statuses) == 0 && len(all) >= n
	}
}

// committed returns the committed offset of a partition, -1 when there is none.
func (w *world) committed(p stream.Partition) int64 {
	w.tb.Helper()
	reader, err := stream.NewReader(w.stream, "test")
	must.Do(w.tb, err)
	defer reader.Close()
	offsets, err := reader.Committed(w.tb.Context(), stream.DispatchGroup, p.Topic)
	must.Do(w.tb, err)
	if o, ok := offsets[p]; ok {
		return o
	}
	return -1
}

// received is one request as its destination received it.
type received struct {
	at     time.Time
	method string
	path   string
	header http.Header
	body   []byte
}

// sink is a destination that answers with the given status and records its requests.
type sink struct {
	answer func(n int, r received) int // status; n counts from 1

	mu  sync.Mutex
	got []received
}

func (s *sink) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	r := received{time.Now(), req.Method, req.URL.RequestURI(), req.Header.Clone(), body}
	s.mu.Lock()
	s.got = append(s.got, r)
	n := len(s.got)
	s.mu.Unlock()
	if s.answer != nil {
		rw.WriteHeader(s.answer(n, r))
	}
}

func (s *sink) all() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

func testWork(t testing.TB, body []byte, header ...event.Field) *event.Work {
	t.Helper()
	eventID := must.Get(id.NewGenerator(nil).New(0))(t)
	return &event.Work{
		Event: &event.Event{
			ID: eventID, Endpoint: testEndpoint, Source: event.SourceProvider, Verdict: event.VerdictVerified,
			Method: http.MethodPost,
			Header: header, Body: body,
		},
		Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1,
	}
}
