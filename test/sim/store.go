package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// storeModel holds the rows that ClickHouse would have: what the log has, collapsed by key.
type storeModel struct {
	w *World

	mu       sync.Mutex // guards the fields below
	events   map[id.ID]*event.Event
	latest   map[delivery]latest
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
	return &storeModel{w: w, events: make(map[id.ID]*event.Event), latest: make(map[delivery]latest),
		read: make(map[stream.Partition]int64), advanced: make(chan struct{})}
}

// run reads the log until ctx ends.
func (s *storeModel) run(ctx context.Context) {
	var reading sync.WaitGroup
	defer reading.Wait()
	for _, topic := range []string{stream.Events, stream.Outcomes} {
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
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.Topic == stream.Events {
			e, err := event.Decode(r)
			if err != nil {
				return err
			}
			s.events[e.ID] = e
		} else {
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
		}
		s.read[p] = r.Offset + 1
		close(s.advanced)
		s.advanced = make(chan struct{})
		return nil
	})
	if err != nil && ctx.Err() == nil {
		panic(fmt.Sprint("the store cannot read the log: ", err))
	}
}

// fence returns when the store has what was in the partition when it was called, as the reader of the real store does.
func (s *storeModel) fence(ctx context.Context, l *life, partition int32) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	select {
	case <-time.After(s.w.latency()):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.node.gate()
	if blocked, cut, _ := l.kafka.state(); blocked || cut {
		<-ctx.Done()
		return event.ErrUnavailable
	}
	info := s.w.kafka.PartitionInfo("relay."+stream.Events, partition)
	for {
		s.mu.Lock()
		read, advanced := s.read[stream.Partition{Topic: stream.Events, Index: partition}], s.advanced
		s.mu.Unlock()
		if read >= info.HighWatermark {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return event.ErrUnavailable
		}
	}
}

func (s *storeModel) has(l *life) func(context.Context, string, id.ID) (bool, error) {
	return func(ctx context.Context, _ string, e id.ID) (bool, error) {
		if err := s.fence(ctx, l, e.Partition()); err != nil {
			return false, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.events[e] != nil, nil
	}
}

// storeReader reads events for the API of a process.
type storeReader struct {
	frame.EventReader // nil: no client lists events
	s                 *storeModel
	l                 *life
}

func (s *storeModel) reader(l *life) frame.EventReader { return storeReader{nil, s, l} }

// Event implements frame.EventReader.
func (r storeReader) Event(ctx context.Context, account string, e id.ID) (*event.Detail, error) {
	if err := r.s.fence(ctx, r.l, e.Partition()); err != nil {
		return nil, err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	stored := r.s.events[e]
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
