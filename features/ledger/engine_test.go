package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/features/ledger"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// logFixture is a log over the real protocol, with a producer.
type logFixture struct {
	t        *testing.T
	stream   stream.Config
	producer *stream.Producer
	ids      *id.Generator
}

// onEmbedded runs a test on the embedded log.
func onEmbedded(t *testing.T, f func(*testing.T, *logFixture)) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	f(t, newLogFixture(t, cluster.ListenAddrs()))
}

func newLogFixture(t *testing.T, brokers []string) *logFixture {
	b := &logFixture{t: t, stream: stream.Config{Brokers: brokers, Prefix: id.Random("ledger.") + "."},
		ids: id.NewGenerator(time.Now)}
	must.Get(stream.Migrate(t.Context(), b.stream, 2, 1))(t)
	var err error
	if b.producer, err = stream.NewProducer(b.stream, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.producer.Close)
	return b
}

func (b *logFixture) put(topic string, partition int32, r *stream.Record) (offset int64) {
	b.t.Helper()
	must.Do(b.t, b.producer.ProduceSync(b.t.Context(), topic, partition, r))
	return r.Offset
}

func (b *logFixture) newID(partition int32) id.ID {
	d := must.Get(b.ids.New(partition))(b.t)
	return d
}

func (b *logFixture) accept(partition int32, dests ...string) *event.Event {
	e := &event.Event{ID: b.newID(partition), Account: "acc_1", Endpoint: "ep_1", Source: event.SourceAPI,
		Verdict: event.VerdictVerified, Dests: dests, Body: []byte("body")}
	b.put(stream.Events, partition, e.Record())
	return e
}

func (b *logFixture) produceOutcome(e *event.Event, dest string, status event.Status, next time.Time) {
	o := &event.Outcome{Event: e.ID, Account: "acc_1", Endpoint: "ep_1", Dest: dest, Status: status, At: time.Now(),
		NextAt: next}
	if status == event.Delivered {
		o.Attempt = &event.Attempt{ID: b.newID(0), OK: true}
	}
	b.put(stream.Outcomes, e.ID.Partition(), o.Record())
}

func (b *logFixture) retry(topic string, e *event.Event, dest string) (offset int64) {
	r := must.Get(
		(&event.Work{Event: e, Dest: dest, Trigger: event.TriggerRetry, Attempt: 2, Due: time.Now()}).Record())(b.t)
	return b.put(topic, e.ID.Partition(), r)
}

// commit commits offsets as the dispatchers do.
func (b *logFixture) commit(topic string, partition int32, offset int64, gaps ...stream.Gap) {
	b.t.Helper()
	p := stream.Partition{Topic: topic, Index: partition}
	committed := stream.Commit{Offset: offset, LeaderEpoch: -1}
	committed.Metadata, _ = stream.EncodeGaps(offset, gaps)
	g := must.Get(stream.NewGroup(b.stream, stream.GroupConfig{Name: stream.DispatchGroup, Topics: []string{topic}}))(b.t)
	defer g.Close()
	must.Do(b.t, g.Poll(b.t.Context(), func(stream.Partition, []*stream.Record) {}))
	must.Do(b.t, g.Commit(b.t.Context(), map[stream.Partition]stream.Commit{p: committed}))
}

func (b *logFixture) audit(span ledger.Span) ledger.Report {
	b.t.Helper()
	r := must.Get(ledger.Audit(b.t.Context(), b.stream, span))(b.t)
	return r
}

// One delivery of each kind, over the real protocol.
func TestAuditOnEngines(t *testing.T) { onEmbedded(t, auditOneOfEachKind) }

func auditOneOfEachKind(t *testing.T, b *logFixture) {
	began := time.Now()
	ok, twice, later, passed := b.accept(0, "a", "b"), b.accept(0, "a"), b.accept(0, "a"), b.accept(0, "a")
	b.accept(0) // no destination
	waiting := b.accept(1, "a")
	b.produceOutcome(ok, "a", event.Delivered, time.Time{})
	b.produceOutcome(ok, "b", event.Failed, time.Time{})
	b.produceOutcome(twice, "a", event.Delivered, time.Time{})
	b.produceOutcome(twice, "a", event.Delivered, time.Time{})
	b.produceOutcome(later, "a", event.Retrying, time.Now().Add(time.Hour))
	b.produceOutcome(passed, "a", event.Retrying, time.Now().Add(time.Hour))
	b.retry("retry.5s", ok, "a")
	b.retry("retry.5s", later, "a")
	b.retry("retry.5s", passed, "a")
	b.retry("retry.1h", passed, "a")
	b.commit(stream.Events, 0, 5)
	b.commit("retry.5s", 0, 1, stream.Gap{From: 2, To: 3})

	want := ledger.Counts{Accepted: 7, Delivered: 2, Failed: 1, Skipped: 1, InFlight: 3, Duplicates: 1}
	is.Same(t, b.audit(ledger.Span{}).Counts, want)
	is.Equal(t, b.audit(ledger.Span{Partitions: []int32{1}}).Counts, ledger.Counts{Accepted: 1, InFlight: 1},
		"partition 1")
	is.Equal(t, b.audit(ledger.Span{Until: began}).Counts, ledger.Counts{}, "before anything was accepted")
	if _, err := ledger.Audit(t.Context(), b.stream, ledger.Span{Limit: 5}); !errors.Is(err, ledger.ErrTooMany) {
		t.Errorf("more than five things in one partition: %v", err)
	}
	// A commit passes a record that was not completed, and the event of partition 1 ends.
	b.commit("retry.5s", 0, 3)
	b.produceOutcome(waiting, "a", event.Skipped, time.Time{})
	r := b.audit(ledger.Span{Since: began.Add(-time.Minute)})
	want = ledger.Counts{Accepted: 7, Delivered: 2, Failed: 1, Skipped: 2, InFlight: 1, Lost: 1, Duplicates: 1}
	is.Same(t, r.Counts, want)
	lost := []ledger.Lost{{Event: later.ID, Dest: "a", Status: event.Retrying, Offset: 4}}
	is.Same(t, r.Losses, lost)
}

// A node follows its partitions and exports what it finds: deliveries in flight, their end, and work that a commit
// has passed.
func TestRunShowsCountsOnEngines(t *testing.T) { onEmbedded(t, runShowsCounts) }

func runShowsCounts(t *testing.T, b *logFixture) {
	registry := prometheus.NewRegistry()
	cfg := ledger.DefaultConfig()
	cfg.Every = time.Second
	var errs kit.Buffer
	l := must.Get(ledger.New(cfg,
		ledger.Deps{Log: slog.New(slog.NewTextHandler(&errs, nil)), Stream: b.stream, Metrics: registry, Now: time.Now,
			Owned: func() []int32 { return []int32{0} }}))(t)
	before, waiting := b.accept(0, "a"), b.accept(0, "a", "b")
	b.produceOutcome(before, "a", event.Delivered, time.Time{})
	b.accept(1, "a") // followed by another node
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		is.OK(t, l.Run(ctx))
	})
	defer wg.Wait()
	defer stop()
	wantMetrics := func(want map[string]float64) {
		t.Helper()
		got := map[string]float64{}
		for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			got = map[string]float64{}
			families := must.Get(registry.Gather())(t)
			for _, f := range families {
				name := strings.TrimPrefix(f.GetName(), "relay_ledger_")
				if _, ok := want[name]; ok {
					got[name] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
				}
			}
			if maps.Equal(got, want) {
				return
			}
		}
		t.Fatalf("the metrics are %v, want %v\n%s", got, want, errs.String())
	}
	wantMetrics(map[string]float64{"accepted": 3, "delivered": 1, "in_flight": 2, "lost": 0, "unproven": 0})
	b.produceOutcome(waiting, "a", event.Failed, time.Time{})
	b.accept(0)
	wantMetrics(map[string]float64{
		"accepted": 4, "delivered": 1, "failed": 1, "skipped": 1, "in_flight": 1, "lost": 0, "unaudited_total": 0})
	b.commit(stream.Events, 0, 3)
	wantMetrics(map[string]float64{"accepted": 4, "in_flight": 0, "lost": 1})
	if want := waiting.ID.Text(id.Event) +
		" to b: no outcome since it was accepted"; strings.Count(errs.String(), want) != 1 {
		t.Errorf("the log must name %q once:\n%s", want, errs.String())
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := (ledger.Config{}).Validate(); err == nil || strings.Count(err.Error(), "ledger: ") != 2 {
		t.Errorf("the zero Config: %v", err)
	}
	is.OK(t, ledger.DefaultConfig().Validate())
	if _, err := ledger.New(ledger.DefaultConfig(), ledger.Deps{}); err == nil {
		t.Error("New takes no Deps")
	}
}
