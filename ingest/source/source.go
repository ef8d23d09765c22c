// Package source reads the topics that endpoints name as their source, and stores their records as events.
//
// The node that owns the partition of an endpoint reads its topic. It commits its position in a consumer group of the
// customer's Kafka, of which it is no member: a new owner begins at once where the last one has committed. Two nodes
// that both believe to own an endpoint do no harm: the topic, partition and offset of a record are the deduplication
// key of its event (ingest.Ingest.Take).
//
// A position is committed when the log has the events before it, so none is left out. Run owns every goroutine: one for
// each topic that is read. Begin with Runner.Run, then Runner.read.
//
// Backpressure: what the log does not take, is not read. A source holds at most fetchBytes of each broker in memory.
package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/ingest/assigned"
	"github.com/eventrelay/relay/pkg/brokers"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// commitEvery is how often a position is committed, and renewEvery how often one that has not changed: brokers forget
	// those of a group without members after a week.
	commitEvery, renewEvery = time.Second, time.Hour
	// checkEvery is how often the lag and new partitions are looked up.
	checkEvery = 10 * time.Second
	// askTimeout bounds a request to the brokers.
	askTimeout = 15 * time.Second
	// fetchBytes is the most that a broker sends at a time, and takeRecords the most records that are stored at a time.
	fetchBytes, takeRecords = 2 << 20, 200
	// unpackedBytes bounds what the batches of a fetch unpack to.
	unpackedBytes = 96 << 20
	// maxHeader and maxHeaders bound the headers of a record that its event has, in bytes and lines.
	maxHeader, maxHeaders = 32 << 10, 100
)

// Status is what is shown of a source.
type Status struct {
	Lag   int64     `json:"lag"` // records that are not read yet
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at"`
}

// Deps are the dependencies of a Runner; all are required.
type Deps struct {
	Log       *slog.Logger
	Endpoints assigned.Endpoints
	Keyring   *seal.Keyring
	Dial      brokers.DialFunc // of egress.Transport
	Take      func(ctx context.Context, ep *config.Endpoint, records []ingest.Record) (stored int, err error)
	MaxBody   int64
	Show      func(endpoint string, s Status) // to all nodes
	Now       func() time.Time
	Metrics   prometheus.Registerer
}

// Runner reads the sources of the endpoints that this node owns.
type Runner struct {
	deps    Deps
	records *prometheus.CounterVec
	failing prometheus.Gauge
}

// New makes a Runner. It starts nothing.
func New(deps Deps) *Runner {
	f := promauto.With(deps.Metrics)
	return &Runner{deps: deps,
		records: f.NewCounterVec(prometheus.CounterOpts{Name: "relay_source_records_total",
			Help: "Records read from the sources of endpoints, by result: stored, repeated or too_large."}, []string{"result"}),
		failing: f.NewGauge(prometheus.GaugeOpts{Name: "relay_sources_failing",
			Help: "Sources of endpoints that this node cannot read now."})}
}

// Run reads all sources until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	return assigned.Run(ctx, r.deps.Endpoints, func(ep *config.Endpoint) bool { return ep.Source != nil }, r.keepReading)
}

// keepReading reads the topic of an endpoint, and again after each error.
func (r *Runner) keepReading(ctx context.Context, ep *config.Endpoint) {
	pause := wait.Backoff{First: time.Second, Longest: time.Minute}
	s := &stream{Runner: r, ep: ep, budget: brokers.NewBudget(unpackedBytes)}
	for failures := 0; ctx.Err() == nil; failures++ {
		began := r.deps.Now()
		err := s.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if r.deps.Now().Sub(began) > time.Minute {
			failures = 0
		}
		message := s.explain(err)
		r.deps.Show(ep.ID, Status{Lag: s.lag, Error: message, At: r.deps.Now()})
		if failures == 0 {
			r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read the source of an endpoint", slog.String("endpoint", ep.ID),
				slog.String("error", message))
		}
		r.failing.Inc()
		_ = wait.For(ctx, pause.After(failures+1))
		r.failing.Dec()
	}
}

// stream reads one topic. One goroutine uses it.
type stream struct {
	*Runner
	ep       *config.Endpoint
	settings kinds.KafkaSource // opened
	dials    atomic.Pointer[error]
	budget   *brokers.Budget
	client   *kgo.Client
	admin    *kadm.Client
	next     map[int32]int64 // offset of the first record that is not stored
	dirty    bool            // next is not committed
	lag      int64
	skipped  string // what was left out last
}

// read reads the topic until ctx ends or something fails. It commits what was stored, also then.
func (s *stream) read(ctx context.Context) (err error) {
	opened, err := s.ep.Inbound.Open(s.deps.Keyring, s.ep.ID)
	if err != nil {
		return fmt.Errorf("open the secrets of the source: %w", err)
	}
	s.settings, s.next, s.dirty = *opened.Source.Kafka, map[int32]int64{}, false
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s.client, err = brokers.Open(ask, s.settings.Broker(), s.deps.Dial, &s.dials, kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchBytes/4), kgo.BrokerMaxReadBytes(4*fetchBytes), kgo.MaxConcurrentFetches(1),
		kgo.WithDecompressor(s.budget),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RetryTimeout(askTimeout), kgo.RequestRetries(3),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.settings.Topic: {}}))
	if err != nil {
		return err
	}
	defer s.client.CloseAllowingRebalance()
	s.admin = kadm.NewClient(s.client)
	if err := s.begin(ask); err != nil {
		return err
	}
	defer func() { // what was stored would be read again
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout/3)
		defer cancel()
		if s.dirty {
			err = errors.Join(err, s.commit(last))
		}
	}()
	committed, checked := s.deps.Now(), time.Time{}
	for ctx.Err() == nil {
		if now := s.deps.Now(); now.Sub(checked) >= checkEvery {
			if err := s.check(ctx); err != nil {
				return err
			}
			checked = now
		}
		if err := s.poll(ctx); err != nil {
			return err
		}
		if age := s.deps.Now().Sub(committed); s.dirty && age >= commitEvery || age >= renewEvery {
			if err := s.commit(ctx); err != nil {
				return err
			}
			committed = s.deps.Now()
		}
	}
	return ctx.Err()
}

// begin begins to read where the group stands. A topic without any position begins where the settings say, which is
// committed at once, so that nothing that comes from now on is left out.
func (s *stream) begin(ctx context.Context) error {
	stored, err := s.admin.FetchOffsetsForTopics(ctx, s.settings.Group, s.settings.Topic)
	if err == nil {
		err = stored.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("read the position of group %s: %w", s.settings.Group, err)
	}
	stored.Each(func(o kadm.OffsetResponse) {
		if o.Topic == s.settings.Topic && o.At >= 0 {
			s.next[o.Partition] = o.At
		}
	})
	if len(s.next) > 0 || s.settings.Start == "earliest" {
		for partition, at := range s.next {
			s.add(partition, at)
		}
		return nil // check adds the partitions that have no position
	}
	ends, err := s.admin.ListEndOffsets(ctx, s.settings.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	ends.Each(func(o kadm.ListedOffset) { s.next[o.Partition] = o.Offset; s.add(o.Partition, o.Offset) })
	return s.commit(ctx)
}

func (s *stream) add(partition int32, at int64) {
	s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		s.settings.Topic: {partition: kgo.NewOffset().At(at)}})
}

// check looks up the lag, and begins with partitions that are new. Their records are read from the first one on.
func (s *stream) check(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends, err := s.admin.ListEndOffsets(ask, s.settings.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	starts, err := s.admin.ListStartOffsets(ask, s.settings.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return err
	}
	s.lag = 0
	ends.Each(func(end kadm.ListedOffset) {
		at, known := s.next[end.Partition]
		if first, _ := starts.Lookup(s.settings.Topic, end.Partition); !known || at < first.Offset {
			at = first.Offset // of what the topic does not have any more, nothing can be read
			s.next[end.Partition], s.dirty = at, true
		}
		if !known {
			s.add(end.Partition, at)
		}
		s.lag += max(end.Offset-at, 0)
	})
	s.deps.Show(s.ep.ID, Status{Lag: s.lag, Error: s.skipped, At: s.deps.Now()})
	return nil
}

// commit commits the position.
func (s *stream) commit(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	offsets := kadm.Offsets{}
	for partition, at := range s.next {
		offsets.AddOffset(s.settings.Topic, partition, at, -1)
	}
	answer, err := s.admin.CommitOffsets(ask, s.settings.Group, offsets)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		return fmt.Errorf("commit the position of group %s: %w", s.settings.Group, err)
	}
	s.dirty = false
	return nil
}

// poll waits for records, at most for a moment, and stores them.
func (s *stream) poll(ctx context.Context) error {
	moment, cancel := context.WithTimeout(ctx, commitEvery)
	defer cancel()
	s.budget.Renew()
	fetched := s.client.PollRecords(moment, takeRecords)
	for _, failed := range fetched.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
			return failed.Err
		}
	}
	var failed error
	fetched.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 && failed == nil {
			failed = s.take(ctx, p.Records)
		}
	})
	return failed
}

// take stores records of one partition.
func (s *stream) take(ctx context.Context, read []*kgo.Record) error {
	var records []ingest.Record
	for _, x := range read {
		if int64(len(x.Value)) > s.deps.MaxBody {
			s.records.WithLabelValues("too_large").Inc()
			s.skipped = fmt.Sprintf("the record at offset %d of partition %d has %d bytes, more than an event may have: it "+
				"was left out", x.Offset, x.Partition, len(x.Value))
			continue
		}
		records = append(records, newRecord(x))
	}
	if len(records) > 0 {
		stored, err := s.store(ctx, records)
		if err != nil {
			return err
		}
		s.records.WithLabelValues("stored").Add(float64(stored))
		s.records.WithLabelValues("repeated").Add(float64(len(records) - stored))
	}
	last := read[len(read)-1]
	s.next[last.Partition], s.dirty = last.Offset+1, true
	return nil
}

// store stores records, and waits while the log or a limit of the endpoint takes none.
func (s *stream) store(ctx context.Context, records []ingest.Record) (stored int, err error) {
	pause := wait.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second}
	for attempt := 0; ; attempt++ {
		n, err := s.deps.Take(ctx, s.ep, records)
		stored += n
		if err == nil || ctx.Err() != nil {
			return stored, err
		}
		s.deps.Show(s.ep.ID, Status{Lag: s.lag, Error: "events are not stored: " + err.Error(), At: s.deps.Now()})
		_ = wait.For(ctx, pause.After(attempt))
	}
}

// newRecord has the headers of a record under their names in HTTP, and its place in the topic.
func newRecord(x *kgo.Record) ingest.Record {
	partition, offset := strconv.Itoa(int(x.Partition)), strconv.FormatInt(x.Offset, 10)
	fields := []event.Field{{Name: "Kafka-Offset", Value: offset}, {Name: "Kafka-Partition", Value: partition},
		{Name: "Kafka-Topic", Value: x.Topic}}
	size := 0
	add := func(name, value string) {
		if size += len(name) + len(value); size <= maxHeader && len(fields) < maxHeaders && httpguts.ValidHeaderFieldName(
			name) && httpguts.ValidHeaderFieldValue(value) {
			fields = append(fields, event.Field{Name: http.CanonicalHeaderKey(name), Value: value})
		}
	}
	add("Kafka-Key", string(x.Key))
	for _, h := range x.Headers {
		add(h.Key, string(h.Value))
	}
	slices.SortStableFunc(fields, func(a, b event.Field) int { return strings.Compare(a.Name, b.Name) })
	return ingest.Record{Key: x.Topic + "\x00" + partition + "\x00" + offset, Header: fields, Body: x.Value}
}

// explain says what is wrong, in words that name what a person can change.
func (s *stream) explain(err error) string {
	if why := s.dials.Load(); why != nil && !errors.As(err, new(*kerr.Error)) {
		err = *why // a request timed out because a broker cannot be reached
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return "access denied for group " + s.settings.Group
	}
	if _, message := brokers.Explain(err, s.settings.Broker()); message != "" {
		return message
	}
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return fmt.Sprintf("the records of one request unpack to more than %d MiB", unpackedBytes>>20)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer of the brokers within %v", askTimeout)
	}
	return egress.Message(err)
}
