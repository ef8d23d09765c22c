package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// answers is a producer that answers each batch with one error, and each record in a batch of its own with another.
type answers struct {
	batch, single error
	produced      []string // topics of the batches
}

func (a *answers) WaitForRoom(context.Context, *stream.Record) error { return nil }
func (a *answers) Produce(topic string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	a.produced = append(a.produced, topic)
	done(r, a.batch)
}
func (a *answers) ProduceInOwnBatch(context.Context, string, int32, *stream.Record) error {
	return a.single
}

// Whatever the log answers, a completion ends or waits in exactly one list. One in no list would never end, and nothing
// after it would be committed. Records that were acknowledged are not produced again.
func TestCompletionIsInOnePlace(t *testing.T) {
	refused, unavailable := error(kerr.MessageTooLarge), context.DeadlineExceeded
	broken := step{topic: stream.Outcomes, record: &stream.Record{}}
	hit := step{topic: stream.Findings, record: &stream.Record{}}
	outcome := outcomeStep(&event.Outcome{Event: quietEvent().ID, Endpoint: testEndpoint, Dest: "dst_1",
		Status: event.Delivered})
	for name, c := range map[string]struct {
		batch, single error
		steps         []step
		want          string // where the completion is after the batch, and after the batch of its own
	}{
		"accepted":               {nil, nil, []step{outcome}, "done"},
		"unavailable":            {unavailable, nil, []step{outcome}, "retries"},
		"refused in a batch":     {refused, nil, []step{outcome}, "single done"},
		"refused and accepted":   {refused, nil, []step{outcome, outcome}, "single ready"},
		"refused, unavailable":   {refused, unavailable, []step{outcome}, "single retries"},
		"outcome refused":        {refused, refused, []step{outcome}, "single retries"}, // nothing smaller is left
		"hit refused":            {refused, refused, []step{hit}, "single retries"},
		"broken outcome refused": {refused, refused, []step{broken}, "single retries"},
		"dead letter refused": {refused, refused, []step{{topic: stream.Dead, record: &stream.Record{
			Headers: make([]stream.Header, stream.DeadHeaderCount)}}}, "single done"},
		"large dead letter refused": {refused, refused, []step{{topic: stream.Dead, record: &stream.Record{
			Value: []byte("x"), Headers: make([]stream.Header, stream.DeadHeaderCount)}}}, "single ready"},
		"follow-up refused": {refused, refused, []step{{topic: "retry.1s", record: quietEvent().Record()}, outcome},
			"single ready"},
	} {
		m := must.Get(newMetrics(prometheus.NewRegistry(), time.Now))(t)
		producer, done := &answers{batch: c.batch, single: c.single}, 0
		f := newFinisher(Deps{Log: testLog(), Producer: producer, Now: time.Now, Stream: stream.Config{Prefix: "t."}}, m,
			func(*lane.Delivery) { done++ })
		p, _ := testPartition(t, stream.Events, 0)
		delivery := &lane.Delivery{Slot: p.beginRecord(0, 0), Work: &event.Work{Event: quietEvent(), Dest: "dst_1"}}
		place := func() string {
			places := strings.Repeat("done ", done)
			for list, b := range map[string]*backlog{"retries": &f.retries, "single": &f.single, "ready": &f.ready} {
				places += strings.Repeat(list+" ", len(b.list))
			}
			return strings.TrimSpace(places)
		}
		f.complete(delivery, c.steps...)
		got := place()
		if got == "single" {
			completion := f.single.list[0]
			f.single.list = nil
			f.produceSingle(t.Context(), completion)
			got = fmt.Sprint(got, " ", place())
		}
		if got != c.want || len(producer.produced) != 1 {
			t.Errorf("%s: %s, want %s; produced %q", name, got, c.want, producer.produced)
		}
	}
}
