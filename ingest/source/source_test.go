package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/desttest"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// world is a configuration with one endpoint and its source, and the events that were stored.
type world struct {
	t        *testing.T
	keyring  *seal.Keyring
	dial     func() *egress.Transport
	ep       atomic.Pointer[config.Endpoint] // nil: there is none
	logs     kit.Buffer
	producer *kgo.Client // to the topic
	sent     int

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	stored  []ingest.Record
	calls   int
	refuse  error // of Take
	status  Status
}

func newWorld(t *testing.T, policy egress.Policy, settings kinds.KafkaSource) *world {
	w := &world{t: t, keyring: must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t), changed: make(chan struct{})}
	transport := must.Get(egress.NewTransport(egress.Config{Policy: policy}))(t)
	t.Cleanup(transport.CloseIdleConnections)
	w.dial = func() *egress.Transport { return transport }
	w.set(&settings)
	return w
}

// set changes the source of the endpoint; nil deletes it.
func (w *world) set(settings *kinds.KafkaSource) {
	var next *config.Endpoint
	if settings != nil {
		source := kinds.Inbound{Source: &kinds.Source{Kafka: settings}}
		source.Trim("ep_test", "generic", time.Now())
		must.Do(w.t, source.ValidateFor("generic", kinds.Checks{Opened: true, URL: func(string) error { return nil }}))
		next = &config.Endpoint{ID: "ep_test", Rev: time.Now().UnixNano(), Inbound: source.Seal(w.keyring, "ep_test",
			kinds.Inbound{}, kinds.Inbound{})}
	}
	w.ep.Store(next)
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) EndpointsWithInbound() []*config.Endpoint {
	if ep := w.ep.Load(); ep != nil {
		return []*config.Endpoint{ep}
	}
	return nil
}

func (w *world) OwnsPartition(int32) bool { return true }

func (w *world) EndpointsChanged() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// take stores records as ingest does.
func (w *world) take(_ context.Context, _ *config.Endpoint, records []ingest.Record) (stored int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	for _, r := range records {
		if w.refuse != nil {
			return stored, w.refuse
		}
		if !slices.ContainsFunc(w.stored, func(x ingest.Record) bool { return x.Key == r.Key }) {
			w.stored = append(w.stored, r)
			stored++
		}
	}
	return stored, nil
}

// node runs a Runner until stop is called.
func (w *world) node() (stop func()) {
	r := New(Deps{Log: slog.New(slog.NewTextHandler(&w.logs, nil)), Endpoints: w, Keyring: w.keyring, Take: w.take,
		Dial: w.dial().Dial, MaxBody: 10_000, Now: time.Now,
		Show: func(_ string, s Status) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.status = s
		}, Metrics: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); run.Wait() })
	w.t.Cleanup(stop)
	return stop
}

func (w *world) send(n int) {
	w.t.Helper()
	var all []*kgo.Record
	for range n {
		w.sent++
		all = append(all, &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte(strconv.Itoa(w.sent)),
			Partition: int32(w.sent % 3), Headers: []kgo.RecordHeader{{Key: "x-shop", Value: []byte("7")}, {Key: "no name"}}})
	}
	must.Do(w.t, w.producer.ProduceSync(w.t.Context(), all...).FirstErr())
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stored)
}

func (w *world) says(text string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the last status is %+v; the log: %s", w.status, w.logs.String())
		}
	}()
	kit.WaitFor(w.t, text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(w.status.Error, text)
	})
	if strings.Contains(w.status.Error+w.logs.String(), "hunter2") {
		w.t.Errorf("a secret is shown: %s", w.logs.String())
	}
}

// customer is a customer's Kafka with a topic.
func customer(t *testing.T, start string) (*kfake.Cluster, *world) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders")))(t)
	t.Cleanup(cluster.Close)
	w := newWorld(t, desttest.Loopback(), kinds.KafkaSource{Brokers: cluster.ListenAddrs(), Topic: "orders",
		Plaintext: true, Start: start})
	w.producer = producer(t, cluster.ListenAddrs()[0])
	return cluster, w
}

func producer(t *testing.T, broker string) *kgo.Client {
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	t.Cleanup(cl.Close)
	return cl
}

// Every record becomes one event, in the order of its partition, through restarts, changes and a second node that
// believes to own the endpoint too.
func TestEveryRecordOnce(t *testing.T) {
	_, w := customer(t, "earliest")
	w.send(1000)
	stop := w.node()
	kit.WaitFor(t, "some records", func() bool { return w.count() > 0 })
	stop()
	w.send(500)
	first := w.node()
	second := w.node()
	w.send(500)
	kit.WaitFor(t, "all records", func() bool { return w.count() == w.sent })
	first()
	again := *must.Get(w.ep.Load().Inbound.Open(w.keyring, "ep_test"))(t).Source.Kafka
	w.set(&again)
	w.send(100)
	kit.WaitFor(t, "those after a change", func() bool { return w.count() == w.sent })
	second()
	calls := w.calls
	w.node()()
	last := w.node()
	w.send(3)
	kit.WaitFor(t, "those after a stop", func() bool { return w.count() == w.sent })
	last()
	if w.calls > calls+3 {
		t.Errorf("%d calls to store three records: the position was not committed", w.calls-calls)
	}
	at := map[string]int{}
	for _, r := range w.stored {
		header := event.LinesOf(r.Header)
		n := must.Get(strconv.Atoi(string(r.Body)))(t)
		if at[header.Value("Kafka-Partition")] > n || header.Value("X-Shop") != "7" || header.Value("Kafka-Key") != "k" {
			t.Fatalf("%s after %d: %v", r.Body, at[header.Value("Kafka-Partition")], r.Header)
		}
		at[header.Value("Kafka-Partition")] = n
	}
}

// A source that begins with what comes leaves out nothing that comes after its first start, also in a new partition.
func TestLatestBeginsOnce(t *testing.T) {
	cluster, w := customer(t, "latest")
	w.send(30)
	stop := w.node()
	kit.WaitFor(t, "the position", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return !w.status.At.IsZero() })
	stop()
	admin := kadm.NewClient(w.producer)
	must.Get(admin.CreatePartitions(t.Context(), 1, "orders"))(t)
	w.producer = producer(t, cluster.ListenAddrs()[0]) // it knows the new partition
	must.Do(t, w.producer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 3, Value: []byte("new")}).
		FirstErr())
	w.send(6)
	w.node()
	kit.WaitFor(t, "what came", func() bool { return w.count() == 7 })
}

// A record that is too large for an event is left out and shown, and what cannot be stored waits.
func TestRecordsThatAreNotStored(t *testing.T) {
	_, w := customer(t, "earliest")
	w.refuse = errors.New("too many events")
	w.send(10)
	must.Do(t, w.producer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders",
		Value: []byte(strings.Repeat("x", 10_001))}).FirstErr())
	w.node()
	w.says("too many events")
	w.mu.Lock()
	w.refuse = nil
	w.mu.Unlock()
	kit.WaitFor(t, "the others", func() bool { return w.count() == 10 })
	w.says("has 10001 bytes, more than an event may have")
}

// What is wrong is shown in words that name what a person can change.
func TestFaultsOfTheBroker(t *testing.T) {
	cluster, w := customer(t, "earliest")
	settings := kinds.KafkaSource{Brokers: cluster.ListenAddrs(), Topic: "missing", Plaintext: true,
		Start: "earliest"}
	w.node()
	w.set(&settings)
	w.says("topic missing not found")
	inner := settings
	inner.Brokers = []string{"10.0.0.1:9092"}
	w.set(&inner)
	w.says("not public")
	gone := settings
	gone.Brokers = []string{fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))}
	w.set(&gone)
	w.says("refused")
	w.set(nil)
	settings.Topic = "orders"
	w.set(&settings)
	w.send(3)
	kit.WaitFor(t, "the records", func() bool { return w.count() == 3 })
}

// Apache Kafka with TLS, SCRAM and ACLs.
func TestApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an Apache Kafka")
	}
	b := kit.SecureKafka(t)
	b.AddUser(t, "relay", "hunter2")
	must.Get(b.Admin.CreateTopic(t.Context(), 3, 1, nil, "orders"))(t)
	b.Allow(t, "User:relay", "topics", "orders", kadm.OpDescribe, kadm.OpRead)
	settings := kinds.KafkaSource{Brokers: []string{b.SASLAddr}, Topic: "orders", SASL: "scram-sha-512", Username: "relay",
		Password: "hunter2", CA: string(must.Get(os.ReadFile(b.CA.File))(t)), Start: "earliest"}
	w := newWorld(t, desttest.Loopback(), settings)
	stop := w.node()
	w.says("access denied for group eventrelay-ep_test")
	wrong := settings
	wrong.Password = "hunter2-wrong"
	w.set(&wrong)
	w.says("refused the user name or password")
	b.Allow(t, "User:relay", "groups", "eventrelay-", kadm.OpRead)
	w.set(&settings)
	w.producer = producer(t, b.PlainAddr)
	w.send(300)
	kit.WaitFor(t, "all records", func() bool { return w.count() == 300 })
	stop()
	w.send(30)
	w.node()
	kit.WaitFor(t, "those after a restart", func() bool { return w.count() == 330 })
}
