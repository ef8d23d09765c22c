package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/api/events"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// storeModel holds the rows that ClickHouse would have: what the log has, collapsed by key.
type storeModel struct {
	w    *World
	down atomic.Bool // it does not answer

	mu       sync.Mutex // guards the fields below
	events   map[id.ID]*event.Event
	order    map[int32][]string // ids of events, by partition, in the order of the log
	latest   map[delivery]latest
	ofRuns   map[chain]latest  // of replays and recovery jobs; without an outcome: it was submitted
	items    map[string][]item // by selection
	read     map[stream.Partition]int64
	advanced chan struct{}
}

type delivery struct {
	event id.ID
	dest  string
}

type latest struct {
	outcome *event.Outcome
	version event.Version
}

func newStoreModel(w *World) *storeModel {
	return &storeModel{w: w, order: make(map[int32][]string), events: make(map[id.ID]*event.Event),
		latest: make(map[delivery]latest), ofRuns: make(map[chain]latest), items: make(map[string][]item),
		read: make(map[stream.Partition]int64), advanced: make(chan struct{})}
}

// storedTopics are the topics that the store reads.
var storedTopics = append([]string{stream.Events, stream.Outcomes}, stream.Commands)

// run reads the log until ctx ends.
func (s *storeModel) run(ctx context.Context) {
	var reading sync.WaitGroup
	defer reading.Wait()
	for _, topic := range storedTopics {
		for i := range s.w.partitions {
			reading.Go(func() { s.follow(ctx, stream.Partition{Topic: topic, Index: i}) })
		}
	}
}

func (s *storeModel) follow(ctx context.Context, p stream.Partition) {
	reader, err := stream.NewReader(s.w.stream(), "store")
	if err != nil {
		panic(err)
	}
	defer reader.Close()
	err = reader.Read(ctx, p, 0, func(r *stream.Record) error {
		return s.add(p, r)
	})
	if err != nil && ctx.Err() == nil {
		panic(fmt.Sprint("the store cannot read the log: ", err))
	}
}

// inOrder returns the ids of all events, those of a partition in the order of the log.
func (s *storeModel) inOrder() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.w.partitions {
		all = append(all, s.order[i]...)
	}
	return all
}

// add adds the row of a record.
func (s *storeModel) add(p stream.Partition, r *stream.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p.Topic {
	case stream.Events:
		e, err := event.Decode(r)
		if err != nil {
			return err
		}
		if s.events[e.ID] == nil {
			s.order[p.Index] = append(s.order[p.Index], e.ID.Text(id.Event))
		}
		s.events[e.ID] = e
	case stream.Outcomes:
		o, err := event.DecodeOutcome(r)
		if err != nil {
			return err
		}
		v, err := o.Version(r.Offset)
		if err != nil {
			return err
		}
		key := delivery{o.Event, o.Dest}
		if now := s.latest[key]; now.outcome == nil || v.Compare(now.version) > 0 {
			s.latest[key] = latest{o, v}
		}
		run := chain{key, o.Run}
		if now := s.ofRuns[run]; o.Run != "" && (now.outcome == nil || v.Compare(now.version) > 0) {
			s.ofRuns[run] = latest{o, v}
		}
	case stream.Commands:
		work, err := event.DecodeWork(r)
		if err != nil {
			return err
		}
		run := chain{delivery{work.Event.ID, work.Dest}, work.Run}
		if _, known := s.ofRuns[run]; !known {
			s.ofRuns[run] = latest{}
		}
	}
	s.read[p] = r.Offset + 1
	close(s.advanced)
	s.advanced = make(chan struct{})
	return nil
}

// readTo says that the records below an offset were read.
func (s *storeModel) readTo(p stream.Partition, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[p] = max(s.read[p], offset)
}

// clear removes all rows.
func (s *storeModel) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.events)
	clear(s.order)
	clear(s.latest)
	clear(s.ofRuns)
	clear(s.read)
}

// fence returns when the store has what was in the partition when it was called, as the reader of the real store does.
func (s *storeModel) fence(ctx context.Context, l *life, at stream.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	select {
	case <-time.After(s.w.latency()):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.node.gate()
	if blocked, cut, _ := l.kafka.state(); blocked || cut || s.down.Load() {
		<-ctx.Done()
		return event.ErrUnavailable
	}
	end := s.w.kafka.end(at)
	for {
		s.mu.Lock()
		read, advanced := s.read[at], s.advanced
		s.mu.Unlock()
		if read >= end {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return event.ErrUnavailable
		}
	}
}

func eventsIn(partition int32) stream.Partition {
	return stream.Partition{Topic: stream.Events, Index: partition}
}

func (s *storeModel) has(l *life) func(context.Context, string, id.ID) (bool, error) {
	if s.w.machine != nil {
		return s.w.machine.has(l)
	}
	return func(ctx context.Context, _ string, e id.ID) (bool, error) {
		if err := s.fence(ctx, l, eventsIn(e.Partition())); err != nil {
			return false, err
		}
		return s.find(e) != nil, nil
	}
}

// find returns an event; nil: the store does not have it.
func (s *storeModel) find(e id.ID) *event.Event {
	s.mu.Lock()
	stored := s.events[e]
	s.mu.Unlock()
	if stored == nil && s.w.ledger != nil {
		s.w.ledger.notFound(e)
	}
	return stored
}

// storeReader reads events for the API of a process.
type storeReader struct {
	frame.EventReader // nil: no client asks for attempts
	s                 *storeModel
	l                 *life
}

func (s *storeModel) reader(l *life) frame.EventReader { return storeReader{nil, s, l} }

// Event implements frame.EventReader.
func (r storeReader) Event(ctx context.Context, account string, e id.ID) (*event.Detail, error) {
	if err := r.s.fence(ctx, r.l, eventsIn(e.Partition())); err != nil {
		return nil, err
	}
	stored := r.s.find(e)
	if stored == nil {
		return nil, event.ErrNotFound
	}
	deliveries := make([]event.Delivery, len(stored.Dests))
	for i, dest := range stored.Dests {
		deliveries[i] = event.Delivery{Destination: dest, Status: event.Pending}
	}
	d := &event.Detail{Event: stored, Summary: event.Summary{ID: e, Account: account, Endpoint: stored.Endpoint,
		Type: stored.Type, Source: stored.Source, Size: len(stored.Body), Deliveries: deliveries}}
	d.Status, d.Reason, d.Counts = event.Summarize(stored, deliveries)
	return d, nil
}

// Events implements frame.EventReader: lists have no filters but those of endpoints.
func (r storeReader) Events(ctx context.Context, q event.Query) (page event.Page, err error) {
	for i := range r.s.w.partitions {
		if err := r.s.fence(ctx, r.l, eventsIn(i)); err != nil {
			return page, err
		}
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for e, stored := range r.s.events {
		if (q.Before.IsZero() || e.Compare(q.Before) < 0) && slices.Contains(q.Endpoints, stored.Endpoint) {
			page.Rows = append(page.Rows, event.Summary{ID: e, Account: stored.Account, Endpoint: stored.Endpoint,
				Type: stored.Type, Source: stored.Source, Status: event.Pending, Size: len(stored.Body)})
		}
	}
	slices.SortFunc(page.Rows, func(a, b event.Summary) int { return b.ID.Compare(a.ID) })
	page.More = len(page.Rows) > q.Limit
	page.Rows = page.Rows[:min(len(page.Rows), q.Limit)]
	return page, nil
}

// endpointOf is the endpoint of an event that is stored; empty: none is.
func (s *storeModel) endpointOf(eventID string) string {
	e, err := id.Parse(id.Event, eventID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.events[e]; err == nil && stored != nil {
		return stored.Endpoint
	}
	return ""
}

// Summaries implements frame.EventReader: the store has none.
func (storeReader) Summaries(context.Context, string, []id.ID) (map[id.ID]event.Summary, error) {
	return nil, event.ErrUnavailable
}

// receipts are those of the events that the store has.
type receipts struct {
	events.Receipts // nil: no client sends receipts
	s               *storeModel
	l               *life
}

// EventEndpoint implements events.Receipts.
func (r receipts) EventEndpoint(ctx context.Context, _ string, e id.ID) (string, error) {
	if err := r.s.fence(ctx, r.l, eventsIn(e.Partition())); err != nil {
		return "", err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if stored := r.s.events[e]; stored != nil {
		return stored.Endpoint, nil
	}
	return "", event.ErrNotFound
}
