package ingest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// AcceptAll returns the errors in the order of the events, in whatever order the log answers.
func TestAcceptAll(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	w := newWorld(t, options{produce: func(next Producer) Producer {
		return producerFunc(func(topic string, p int32, r *record, done func(*record, error)) {
			switch n++; n % 3 {
			case 0:
				done(r, stream.ErrBufferFull)
			case 1:
				next.Produce(topic, p, r, done)
			default:
				done(r, broken)
			}
		})
	}})
	events := make([]*event.Event, 999)
	for i := range events {
		events[i] = &event.Event{Source: event.SourceAPI, Verdict: event.VerdictUnverified, Body: fmt.Appendf(nil, "%d", i)}
	}
	errs := w.ingest.Acceptor().AcceptAll(t.Context(), events, w.endpoints[token])
	var want []string
	for i, err := range errs {
		full, unknown := errors.Is(err, stream.ErrBufferFull), errors.Is(err, ErrOutcomeUnknown)
		switch i % 3 {
		case 0:
			want = append(want, string(events[i].Body))
			must.Do(t, err, "event %d", i)
		case 1:
			if full || !unknown || !errors.Is(err, broken) {
				t.Fatalf("event %d: %v", i, err)
			}
		default:
			if !full || unknown {
				t.Fatalf("event %d: %v", i, err)
			}
		}
	}
	stored := w.stored()
	must.Equal(t, len(stored), len(want), "events are stored")
	for i, e := range stored {
		must.Equal(t, string(e.Body), want[i], "event %d of the log is %s", i, e.Body)
	}
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("unknown")), 333, "unknown outcomes are counted")
}

// countingProducer counts calls of Produce and of ProduceUnordered.
type countingProducer struct {
	Producer
	ordered, unordered int
}

func (w *countingProducer) Produce(topic string, p int32, r *record, done func(*record, error)) {
	w.ordered++
	w.Producer.Produce(topic, p, r, done)
}

func (w *countingProducer) ProduceUnordered(topic string, p int32, r *record, done func(*record, error)) {
	w.unordered++
	w.Producer.ProduceUnordered(topic, p, r, done)
}

// Events of one batch are produced in order; a single event is produced unordered.
func TestOnlyBatchesAreProducedInOrder(t *testing.T) {
	counting := &countingProducer{}
	w := newWorld(t, options{produce: func(next Producer) Producer {
		counting.Producer = next
		return counting
	}})
	some := func(n int) (events []*event.Event) {
		for range n {
			events = append(events, &event.Event{Source: event.SourceAPI, Verdict: event.VerdictUnverified, Body: []byte("{}")})
		}
		return events
	}
	acceptor := w.ingest.Acceptor()
	if err := acceptor.Accept(t.Context(), some(1)[0], w.endpoints[token]); err != nil || counting.unordered != 1 ||
		counting.ordered != 0 {
		t.Errorf("a single event: %v, %d in order, %d without", err, counting.ordered, counting.unordered)
	}
	acceptor.AcceptAll(t.Context(), some(3), w.endpoints[token])
	if counting.unordered != 1 || counting.ordered != 3 {
		t.Errorf("a batch of three: %d in order, %d without", counting.ordered, counting.unordered-1)
	}
}
