package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// sim is a complete dispatcher on fake time, between a log in memory and destinations that are a function.
type sim struct {
	*simLog
	t    *testing.T
	d    *Dispatcher
	cfg  Config
	view *view
	ids  *id.Generator
	// answer returns how long a destination takes for a request, and the status; 0 = it refuses the connection.
	answer func(dest string, now time.Time) (time.Duration, int)

	// absentUntil is until when parked deliveries may skip re-checks, in Unix nanoseconds; 0: they must not.
	absentUntil atomic.Int64

	seen            sync.Mutex // guards the fields below
	last            map[lane.DeliveryKey]*event.Outcome
	due             map[lane.DeliveryKey]time.Time // of the next attempt, as reported
	held            map[string]time.Time
	requests        int
	early           int
	flying          int
	maxRunning      int // concurrent requests
	succeededAt     []time.Time
	passes          map[int64]int // records of the tiers by second
	skippedRechecks int           // re-checks that were skipped
}

// simulate runs f beside a dispatcher.
func simulate(t *testing.T, cfg Config, eps []*config.Endpoint, f func(*sim)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
		s := &sim{
			simLog: newSimLog(), t: t, cfg: cfg, view: newView(), ids: id.NewGenerator(nil),
			held: make(map[string]time.Time),
			last: make(map[lane.DeliveryKey]*event.Outcome),
			due:  make(map[lane.DeliveryKey]time.Time), passes: make(map[int64]int),
		}
		secret := sign.NewSecret().Reveal()
		for _, endpoint := range eps {
			for i := range endpoint.Destinations {
				dest := &endpoint.Destinations[i]
				dest.Secrets = []config.SigningSecret{{Secret: keyring.SealString(dest.ID, seal.FieldSecret, secret)}}
			}
			s.view.put(endpoint)
		}
		d, err := New(cfg, Deps{
			Log: testLog(), Stream: stream.Config{Brokers: []string{"none"}}, Producer: s, Config: s.view, Updater: s.view,
			Keyring: keyring, Transport: s, IDs: s.ids, Now: time.Now,
			Metrics: prometheus.NewRegistry(), Held: s,
		})
		must.Do(t, err)
		s.d, s.produced = d, s.recordProduced
		d.join = func(g stream.GroupConfig) (member, error) {
			s.assigned = g.Assigned
			return s, nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			is.OK(t, d.Run(ctx), "Run")
		})
		f(s)
		cancel()
		running.Wait()
	})
}

// simEndpoint has the default policy and the given destinations.
func simEndpoint(ep string, dests ...string) *config.Endpoint {
	e := &config.Endpoint{ID: ep, Account: "acc_1",
		EndpointSettings: config.EndpointSettings{Enabled: true}, RetryPolicy: retry.Default()}
	for _, d := range dests {
		e.Destinations = append(e.Destinations, config.Destination{
			ID: d, URL: "http://" + strings.ReplaceAll(d, "_", "-") + ".test/hook",
			DestinationSettings: config.NewDestinationSettings(),
		})
	}
	return e
}

// accept appends an event for the destinations of an endpoint.
func (s *sim) accept(endpoint *config.Endpoint) {
	eventID := must.Get(s.ids.New(0))(s.t)
	ev := &event.Event{
		ID: eventID, Account: endpoint.Account, Endpoint: endpoint.ID, Source: event.SourceProvider,
		Verdict: event.VerdictVerified,
		Type:    "order.created", Method: http.MethodPost, Body: []byte(`{"id":1}`),
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
	}
	for _, d := range endpoint.Destinations {
		ev.Dests = append(ev.Dests, d.ID)
	}
	s.Produce(stream.Events, 0, ev.Record(), func(*stream.Record, error) {})
}

// RoundTrip is a destination.
func (s *sim) RoundTrip(req *http.Request) (*http.Response, error) {
	dest := strings.ReplaceAll(strings.TrimSuffix(req.URL.Host, ".test"), "-", "_")
	eventID, err := id.Parse(id.Event, req.Header.Get("Webhook-Id"))
	is.OK(s.t, err, "webhook-id")
	now := time.Now()
	s.seen.Lock()
	s.requests++
	s.flying++
	s.maxRunning = max(s.maxRunning, s.flying)
	if now.Before(s.due[lane.DeliveryKey{Event: eventID, Dest: dest}]) {
		s.early++
	}
	s.seen.Unlock()
	defer func() {
		s.seen.Lock()
		s.flying--
		s.seen.Unlock()
	}()
	takes, status := s.answer(dest, now)
	select {
	case <-time.After(takes):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if status == 0 {
		return nil, errRefused
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)),
		Request: req}, nil
}

// recordProduced counts a produced record and returns how much later it can be fetched.
func (s *sim) recordProduced(topic string, record *stream.Record) time.Duration {
	if strings.HasPrefix(topic, "retry.") {
		s.seen.Lock()
		s.passes[time.Now().Unix()]++
		s.seen.Unlock()
		return s.skipRechecks(record)
	}
	if topic != stream.Outcomes {
		return 0
	}
	outcome, err := event.DecodeOutcome(record)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	k := lane.DeliveryKey{Event: outcome.Event, Dest: outcome.Dest}
	s.seen.Lock()
	defer s.seen.Unlock()
	if outcome.Status == event.Delivered {
		s.succeededAt = append(s.succeededAt, time.Now())
	}
	delete(s.due, k)
	if outcome.Attempt != nil && outcome.Status == event.Retrying {
		s.due[k] = outcome.NextAt
	}
	outcome.Attempt = nil
	s.last[k] = outcome
	return 0
}

// skipRechecks keeps a parked delivery in its tier for whole re-check intervals, as if each re-check had parked it
// again: a day without change has thousands of them per delivery. One in a hundred is re-checked whenever the breaker
// may let it pass, so that all probes are sent. It returns how much later the record is appended.
func (s *sim) skipRechecks(record *stream.Record) time.Duration {
	absent := s.absentUntil.Load()
	if absent == 0 {
		return 0
	}
	work, err := event.DecodeWork(record)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	until := time.Unix(0, absent)
	open, parked, lanes := s.laneState(work.Dest)
	if work.Event.ID[15]%100 == 0 {
		until = lane.Earlier(until, open)
	}
	now := time.Now()
	step := work.Due.Sub(now)
	interval := lane.RecheckInterval(stream.Tiers(), parked, lanes, lane.HungRecheckBudget)
	if work.Parked != event.BreakerOpen || open.IsZero() || step < interval || until.Sub(work.Due) < step {
		return 0
	}
	passes := until.Sub(work.Due) / step // the last one before that time is real: its lane knows that deliveries wait
	work.Due = work.Due.Add(passes * step)
	again, err := work.Record()
	if err != nil {
		s.t.Error(err)
		return 0
	}
	record.Headers, record.Timestamp = again.Headers, now.Add(passes*step)
	s.seen.Lock()
	s.skippedRechecks += int(passes)
	s.seen.Unlock()
	return passes * step
}

// laneState returns until when the breaker of a destination is open, how many deliveries it has parked, and how many
// lanes have some. It is used where there is one destination.
func (s *sim) laneState(dest string) (open time.Time, parked, lanes int) {
	for _, n := range s.d.lanes.Census().Parked {
		parked += n
	}
	s.seen.Lock()
	defer s.seen.Unlock()
	return s.held[dest], parked, min(parked, 1)
}

// SetHeldUntil records open circuit breakers.
func (s *sim) SetHeldUntil(dest string, until time.Time) {
	s.seen.Lock()
	defer s.seen.Unlock()
	s.held[dest] = until
}

// statuses counts the deliveries by their last outcome.
func (s *sim) statuses() map[string]int {
	s.seen.Lock()
	defer s.seen.Unlock()
	n := map[string]int{}
	for _, outcome := range s.last {
		n[strings.TrimSpace(fmt.Sprint(outcome.Status, " ", outcome.Reason))]++
	}
	return n
}

// passRate is how many records of the tiers were produced per second since then, on average.
func (s *sim) passRate(since time.Time) float64 {
	s.seen.Lock()
	defer s.seen.Unlock()
	total := 0
	for at, n := range s.passes {
		if at >= since.Unix() {
			total += n
		}
	}
	return float64(total) / max(time.Since(since).Seconds(), 1)
}

func (s *sim) passesInAll() (n int) {
	s.seen.Lock()
	defer s.seen.Unlock()
	for _, x := range s.passes {
		n += x
	}
	return n
}

// memory checks what the dispatcher holds against its bounds.
func (s *sim) memory(when string) {
	held, size := s.d.lanes.InMemory()
	if held > s.cfg.MaxInFlight+maxPollRecords || size > s.cfg.MaxInFlightBytes {
		s.t.Errorf("%s: %d deliveries are held, %d bytes", when, held, size)
	}
	for _, p := range s.d.assignment.all() {
		p.mu.Lock()
		if n := len(p.waiting); n > maxWaiting+maxPollRecords || p.tracker.span() > maxSpan {
			s.t.Errorf("%s: %d records of %s wait in memory, %d offsets are open", when, n, p.id.Topic, p.tracker.span())
		}
		p.mu.Unlock()
	}
}

// simConfig is the configuration of a node.
func simConfig() Config {
	cfg := DefaultConfig()
	cfg.Version = "test"
	return cfg
}

// A node whose clock was an hour ahead and is set right accepts no new events for an hour. Accepted ones are delivered
// all the same, at once.
func TestDeliveryAfterTheClockWasAhead(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		ev := w.newEvent(`{}`)
		var ahead atomic.Int64
		w.ids = id.NewGenerator(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		ahead.Store(int64(time.Hour))
		first := w.ids.NewUnbounded(0)
		ahead.Store(0)
		w.start(testConfig())
		w.accept(ev)
		began := time.Now()
		outcome := w.outcomes(count(1))[0]
		if took := time.Since(began); outcome.Status != event.Delivered || took > 2*time.Second {
			t.Errorf("%s after %v", outcome.Status, took)
		}
		if outcome.Attempt.ID.String() <= first.String() || !outcome.Attempt.StartedAt.Before(first.Time()) {
			t.Errorf("attempt %s at %v after id %s", outcome.Attempt.ID, outcome.Attempt.StartedAt, first)
		}
		is.Equal(t, w.cluster.PartitionInfo("t."+stream.Outcomes, 0).HighWatermark, 1, "outcomes")
	})
}

// simLog is the log of a simulation: topics of one partition in memory, and the only member of the group that reads
// them. With it a dispatcher is complete, and an hour of fake time costs only what the dispatcher does: no requests,
// no encoding of batches, no copies.
//
// Fetched records are forgotten. Records that must arrive late are kept aside until then.
type simLog struct {
	assigned func(map[stream.Partition]stream.Commit)
	// produced is called with every record and returns how much later the record can be fetched.
	produced func(topic string, record *stream.Record) time.Duration

	mu     sync.Mutex // guards the fields below
	topics map[string]*simTopic
	order  []*simTopic
	turn   int
	joined bool
	marks  map[stream.Partition]stream.Commit
	more   chan struct{} // wakes Poll; capacity 1
}

type simTopic struct {
	id     stream.Partition
	queue  []*stream.Record
	next   int64
	paused bool
	deep   func(int) *stream.Record // makes the records below end as they are fetched; they are not in memory before
	end    int64
}

func newSimLog() *simLog {
	l := &simLog{
		topics: make(map[string]*simTopic), marks: make(map[stream.Partition]stream.Commit), more: make(chan struct{}, 1),
		produced: func(string, *stream.Record) time.Duration { return 0 },
	}
	for _, name := range []string{stream.Events, stream.Commands} {
		l.add(name)
	}
	for _, t := range stream.Tiers() {
		l.add(t.Topic)
	}
	return l
}

func (l *simLog) add(name string) {
	t := &simTopic{id: stream.Partition{Topic: name}}
	l.topics[name] = t
	l.order = append(l.order, t)
}

// Produce appends at once.
func (l *simLog) Produce(topic string, partition int32, record *stream.Record, done func(*stream.Record, error)) {
	if record.Timestamp.IsZero() {
		record.Timestamp = time.Now()
	}
	if late := l.produced(topic, record); late > 0 {
		time.AfterFunc(late, func() { l.append(topic, record) })
	} else {
		l.append(topic, record)
	}
	done(record, nil)
}

func (l *simLog) append(topic string, record *stream.Record) {
	l.mu.Lock()
	if t := l.topics[topic]; t != nil {
		record.Offset = t.next
		t.next++
		t.queue = append(t.queue, record)
	}
	l.mu.Unlock()
	l.wakeReader()
}

// deepen gives an empty topic that many records, made as they are fetched. Other records of the topic are not stored:
// they would use more memory than is measured.
func (l *simLog) deepen(topic string, records int, make func(int) *stream.Record) {
	l.mu.Lock()
	l.produced = func(string, *stream.Record) time.Duration { return 0 }
	t := l.topics[topic]
	t.deep, t.end = make, int64(records)
	l.mu.Unlock()
	l.wakeReader()
}

func (l *simLog) wakeReader() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *simLog) WaitForRoom(ctx context.Context, _ *stream.Record) error { return ctx.Err() }

func (l *simLog) ProduceInOwnBatch(context.Context, string, int32, *stream.Record) error {
	panic("nothing is refused here")
}

// Poll returns records of the next topic that is not paused.
func (l *simLog) Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error {
	if !l.joined {
		l.joined = true
		commits := make(map[stream.Partition]stream.Commit)
		for _, t := range l.order {
			commits[t.id] = stream.Commit{}
		}
		l.assigned(commits)
	}
	for {
		if id, records := l.fetch(); records != nil {
			each(id, records)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.more:
		}
	}
}

func (l *simLog) fetch() (stream.Partition, []*stream.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.order {
		l.turn = (l.turn + 1) % len(l.order)
		t := l.order[l.turn]
		for ; !t.paused && t.next < t.end && len(t.queue) < maxPollRecords; t.next++ {
			record := t.deep(int(t.next))
			record.Offset = t.next
			t.queue = append(t.queue, record)
		}
		if t.paused || len(t.queue) == 0 {
			continue
		}
		records := slices.Clone(t.queue[:min(len(t.queue), maxPollRecords)])
		t.queue = slices.Delete(t.queue, 0, len(records))
		return t.id, records
	}
	return stream.Partition{}, nil
}

// Commit stores the commits.
func (l *simLog) Commit(_ context.Context, commits map[stream.Partition]stream.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, m := range commits {
		l.marks[p] = m
	}
	return nil
}

func (l *simLog) Pause(ids ...stream.Partition)  { l.pause(ids, true) }
func (l *simLog) Resume(ids ...stream.Partition) { l.pause(ids, false) }
func (l *simLog) Lag(stream.Partition) int64     { return 0 }
func (l *simLog) Close()                         {}

func (l *simLog) pause(ids []stream.Partition, paused bool) {
	l.mu.Lock()
	for _, id := range ids {
		l.topics[id.Topic].paused = paused
	}
	l.mu.Unlock()
	l.wakeReader()
}

// open is how many records are appended and not committed.
func (l *simLog) open() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.order {
		n += max(t.next, t.end) - l.marks[t.id].Offset
	}
	return n
}
