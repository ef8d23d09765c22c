package ingest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

const (
	token   = "tok"
	baseURL = "https://relay.example.com"
	maxBody = 1 << 20
)

// options of a world; the zero value has an endpoint without verification, deduplication and limits.
type options struct {
	endpoint    func(w *world, ep *config.Endpoint) // changes the endpoint with the token "tok"
	baseURL     string
	maxBody     int64
	bodyTimeout time.Duration
	produce     func(next Producer) Producer // wraps the producer
	now         func() time.Time             // of the Ingest
	idClock     func() time.Time             // of the ids
	partitions  int32
	redis       string // its address; empty = none
	spans       *spans.Recorder
	transport   roundTripper
}

// roundTripper answers the requests to providers.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// world is a log, a configuration with one endpoint, and an Ingest behind a real HTTP server.
type world struct {
	tb       testing.TB
	cluster  *kfake.Cluster
	reader   *stream.Reader
	keyring  *seal.Keyring
	log      Producer
	registry *prometheus.Registry
	logs     *kit.Buffer
	ingest   *Ingest
	url      string // of the server

	skew        atomic.Int64 // of the broker's clock
	capacityErr error        // what CheckCapacity returns
	tenantRate  int          // of the tenant "customer"
	cutOff      atomic.Bool  // from the configuration log

	mu        sync.Mutex // guards endpoints
	endpoints map[string]*config.Endpoint
}

// EndpointByToken implements Endpoints.
func (w *world) EndpointByToken(token string) *config.Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endpoints[token]
}

// Lease implements Endpoints.
func (w *world) Lease() (time.Duration, bool) { return 0, !w.cutOff.Load() }

// Tenant implements Endpoints: there is one, with its most events a second.
func (w *world) Mismatch(_ *config.Endpoint, kind string, _ []byte, _ *int) *event.Mismatch {
	if kind != "mismatched" {
		return nil
	}
	return &event.Mismatch{Version: 2, Pointer: "/a", Message: "wrong"}
}

func (w *world) Tenant(account, name string) *config.Tenant {
	if name != "customer" {
		return nil
	}
	return &config.Tenant{Meta: entity.Meta{ID: "ten_x", Account: account}, Tenant: name,
		Limits: config.TenantLimits{EventsPerSecond: &w.tenantRate}}
}

// change replaces the endpoint by a changed copy, as the configuration does.
func (w *world) change(alter func(*config.Endpoint)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ep := *w.endpoints[token]
	alter(&ep)
	ep.Rev++
	w.endpoints[token] = &ep
}

func newWorld(tb testing.TB, o options) *world {
	tb.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(tb)
	tb.Cleanup(cluster.Close)
	if o.maxBody == 0 {
		o.maxBody = maxBody
	}
	sc := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(stream.Migrate(tb.Context(), sc, max(o.partitions, 1), 1))(tb)
	producer := must.Get(stream.NewProducer(sc, "test"))(tb)
	tb.Cleanup(producer.Close)
	reader := must.Get(stream.NewReader(sc, "test"))(tb)
	tb.Cleanup(reader.Close)
	w := newIngest(tb, o, producer)
	w.cluster, w.reader, w.log = cluster, reader, producer
	w.listen()
	return w
}

// second starts a second node: its own Ingest with the same log and the same configuration.
func (w *world) second(o options) *world {
	w.tb.Helper()
	other := newIngest(w.tb, o, w.log)
	other.cluster, other.reader = w.cluster, w.reader
	other.listen()
	return other
}

// listen starts the HTTP server of the Ingest.
func (w *world) listen() {
	tb := w.tb
	srv := httptest.NewUnstartedServer(w.ingest.Handler())
	srv.Config.ReadHeaderTimeout, srv.Config.MaxHeaderBytes = 10*time.Second, 256<<10
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	tb.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		srv.Close()
	})
	w.url = srv.URL
}

// newIngest creates an Ingest and its endpoint with the given producer, without an HTTP server.
func newIngest(tb testing.TB, o options, log Producer) *world {
	tb.Helper()
	keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(tb)
	if o.baseURL == "" {
		o.baseURL = baseURL
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.produce != nil {
		log = o.produce(log)
	}
	w := &world{tb: tb, keyring: keyring, registry: prometheus.NewRegistry(), logs: &kit.Buffer{}}
	ep := &config.Endpoint{
		ID: "ep_1", Account: "acc_1", Provider: "generic",
		EndpointSettings: config.NewEndpointSettings("generic"), Rev: 1,
		Token: keyring.SealString("ep_1", seal.FieldToken, token),
		Destinations: []config.Destination{{ID: "dst_1", DestinationSettings: config.NewDestinationSettings()}, {ID: "dst_2"},
			{ID: "dst_3", DestinationSettings: config.NewDestinationSettings()}},
	}
	if o.endpoint != nil {
		o.endpoint(w, ep)
	}
	w.endpoints = map[string]*config.Endpoint{token: ep}
	limits := limits(tb, o.now)
	w.ingest = New(Config{BaseURL: o.baseURL, MaxBody: max(o.maxBody, 1<<10)}, Deps{
		Metrics: w.registry, Endpoints: w, Keyring: keyring, Producer: log, IDs: id.NewGenerator(o.idClock), Now: o.now,
		ClockSkew: func() time.Duration {
			return time.Duration(w.skew.Load())
		}, Claims: limiter(tb, o.redis), Limits: limits, HasEvent: w.eventInLog,
		Rejected:      limits.NewWindow("rejected-bytes", time.Minute),
		CheckCapacity: func() error { return w.capacityErr }, Spans: o.spans, Transport: o.transport,
		Front: &web.Front{
			Log: slog.New(slog.NewTextHandler(w.logs, nil)), BaseURL: o.baseURL, BodyTimeout: o.bodyTimeout},
	})
	return w
}

// limiter returns one node's Redis client. Its timeout is longer than the 50 ms of production, because a loaded test
// machine may pause longer.
func limiter(tb testing.TB, address string) *limit.Limiter {
	tb.Helper()
	cfg := limit.DefaultConfig()
	if cfg.Timeout = 10 * time.Second; address != "" {
		cfg.URL = "redis://" + address
	}
	l := must.Get(limit.New(cfg, limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(tb)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(ctx) })
	tb.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

// limits returns a limiter without Redis, on the clock of the Ingest.
func limits(tb testing.TB, now func() time.Time) *limit.Limiter {
	tb.Helper()
	l := must.Get(limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: now}))(tb)
	return l
}

// eventInLog is Deps.HasEvent.
func (w *world) eventInLog(_ context.Context, account string, d id.ID) (bool, error) {
	return slices.ContainsFunc(w.stored(), func(e *event.Event) bool { return e.ID == d && e.Account == account }), nil
}

// verification returns a provider's verification with its secrets sealed for the endpoint.
func (w *world) verification(scheme string, secrets ...string) *config.Verification {
	v := &config.Verification{Type: scheme, Mode: "enforce", ToleranceSeconds: 300}
	for _, s := range secrets {
		v.Secrets = append(v.Secrets, w.keyring.SealString("ep_1", seal.FieldVerification, s))
	}
	return v
}

// stored returns every event of the log, by partition.
func (w *world) stored() (events []*event.Event) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ends := must.Get(w.reader.Ends(ctx, stream.Events))(w.tb)
	for p := range int32(len(ends)) {
		at := stream.Partition{Topic: stream.Events, Index: p}
		if ends[at] == 0 {
			continue
		}
		must.Do(w.tb, w.reader.Read(ctx, at, 0, func(r *stream.Record) error {
			e, err := event.Decode(r)
			if err != nil {
				return err
			}
			events = append(events, e)
			if r.Offset+1 == ends[at] {
				return stream.ErrStop
			}
			return nil
		}))
	}
	return events
}

// only returns the one event of the log.
func (w *world) only() *event.Event {
	w.tb.Helper()
	events := w.stored()
	if len(events) != 1 {
		w.tb.Fatalf("%d events are stored, want one", len(events))
	}
	return events[0]
}

// answer is a response and its whole body.
type answer struct {
	*http.Response
	body string
}

// do sends a request to the endpoint's URL; headers are name, value pairs.
func (w *world) do(method, query string, body io.Reader, headers ...string) answer {
	w.tb.Helper()
	req := must.Get(http.NewRequest(method, w.url+PathPrefix+token+query, body))(w.tb)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res := must.Get(http.DefaultClient.Do(req))(w.tb)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(w.tb)
	return answer{res, string(text)}
}

func (w *world) post(body string, headers ...string) answer {
	w.tb.Helper()
	return w.do(http.MethodPost, "", strings.NewReader(body), headers...)
}

// want fails the test unless the answer has the status.
func (w *world) want(a answer, status int) answer {
	w.tb.Helper()
	must.Equal(w.tb, a.StatusCode, status, "answered: %s", a.body)
	return a
}

// dial opens a connection to the server that ends with the test.
func (w *world) dial() net.Conn {
	w.tb.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(w.tb)
	w.tb.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// raw sends text unchanged, closes the client's half of the connection and returns all responses.
func (w *world) raw(text string) (answers []answer) {
	w.tb.Helper()
	conn := w.dial()
	must.Get(io.WriteString(conn, text))(w.tb)
	conn.(*net.TCPConn).CloseWrite()
	for r := bufio.NewReader(conn); ; {
		if _, err := r.Peek(1); err != nil {
			return answers
		}
		res := must.Get(http.ReadResponse(r, nil))(w.tb)
		body := must.Get(io.ReadAll(res.Body))(w.tb)
		answers = append(answers, answer{res, string(body)})
	}
}

// request is the text of a request to the endpoint's URL.
func request(method string, lines []string, body string) string {
	return fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: relay.example.com\r\n%s\r\n%s", method, PathPrefix, token,
		strings.Join(append(lines, ""), "\r\n"), body)
}

// metric is the value of one series.
func (w *world) metric(c prometheus.Collector) float64 { return testutil.ToFloat64(c) }

// record abbreviates stream.Record.
type record = stream.Record

// producerFunc implements Producer by a function.
type producerFunc func(topic string, partition int32, r *record, done func(*record, error))

func (f producerFunc) Produce(topic string, partition int32, r *record, done func(*record, error)) {
	f(topic, partition, r, done)
}

func (f producerFunc) ProduceUnordered(topic string, partition int32, r *record, done func(*record, error)) {
	f(topic, partition, r, done)
}
