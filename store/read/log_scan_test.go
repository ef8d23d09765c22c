package read

import (
	"context"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// An event that a power cut may still take from the log in this process is not durable.
func TestAnEventIsDurableAfterItsSync(t *testing.T) {
	t.Parallel()
	l := must.Get(stream.OpenLog(stream.LogConfig{Dir: t.TempDir(), Fsync: true}))(t)
	c := stream.Config{Embedded: l, Prefix: "t."}
	must.Get(stream.Migrate(t.Context(), c, 1, 1))(t)
	topic := must.Get(stream.NewReader(c, "test"))(t)
	e := &event.Event{ID: must.Get(id.NewGenerator(time.Now).New(0))(t), Account: "acc", Endpoint: "ep"}
	acknowledged := make(chan error, 1)
	must.Get(stream.NewProducer(c, "test"))(t).Produce(stream.Events, 0, e.Record(),
		func(_ *stream.Record, err error) { acknowledged <- err })
	must.Get(newScanner(topic, scanSpan).find(t.Context(), "acc", e.ID))(t) // it can be read
	durable := newLateScanner(topic)
	_, err := durable.find(t.Context(), "acc", e.ID)
	is.ErrorIs(t, err, event.ErrNotFound, "before the sync")
	ctx, cancel := context.WithCancel(t.Context()) // only a log that runs syncs
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	must.Do(t, <-acknowledged)
	must.Get(durable.find(t.Context(), "acc", e.ID))(t)
	cancel()
	must.Do(t, <-ended)
}
