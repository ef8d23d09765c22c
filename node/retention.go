package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// embeddedKept is how much of the embedded log is kept although it was done, in bytes: the engine reads all of it
// when it starts, a gigabyte in 1.4 s.
const embeddedKept = 1 << 30

// startTrimmer deletes from the log what everybody has done. It waits to be told that this node is the one.
func (n *Node) startTrimmer() error {
	cfg := stream.DefaultTrimConfig()
	cfg.Keep = time.Duration(n.s.LogKeepMinutes) * time.Minute
	if n.s.Embedded {
		cfg.MaxBytes = embeddedKept
	}
	var err error
	if n.trimmer, err = stream.NewTrimmer(cfg, stream.TrimDeps{Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.control.Now}); err != nil {
		return err
	}
	n.st.Start("trimming of the log", n.trimmer.Run)
	return nil
}

// retention is how long events are kept.
func (s Config) retention() time.Duration { return time.Duration(s.RetentionDays) * 24 * time.Hour }

// startGuard looks whether what is accepted is done in time.
func (n *Node) startGuard() (*stream.Guard, error) {
	g, err := stream.NewGuard(stream.GuardDeps{
		Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.control.Now, Retention: n.s.retention(),
	})
	if err == nil {
		n.st.Start("guard of the log", g.Run)
	}
	return g, err
}

// startEraser takes out of the store the payloads that were erased, and the days whose retention has ended.
func (n *Node) startEraser() error {
	e, err := store.NewEraser(store.DefaultEraserConfig(), store.EraserDeps{
		Log: n.log, Store: n.reader, Erasures: erasures{n.control}, Owner: n.first.Load, Now: n.control.Now, Metrics: n.registry,
	})
	if err != nil {
		return err
	}
	n.st.Start("eraser of payloads", e.Run)
	x, err := store.NewExpirer(store.DefaultExpirerConfig(), store.ExpirerDeps{
		Log: n.log, Store: n.reader, Owner: n.first.Load, Metrics: n.registry,
	})
	if err != nil {
		return err
	}
	n.st.Start("retention of the store", x.Run)
	return nil
}

// erasures is the list of what was erased, as the store asks for it.
type erasures struct{ config *control.Control }

func (e erasures) Unfinished() (account string, erased map[id.ID]time.Time) {
	erased = make(map[id.ID]time.Time)
	for _, x := range e.config.UnfinishedErasures() {
		if d, err := id.Parse(id.Event, x.ID); err == nil { // ErasePayload took it from one
			account, erased[d] = x.Account, x.CreatedAt
		}
	}
	return account, erased
}

func (e erasures) Finish(ctx context.Context, d id.ID) error {
	return e.config.FinishErasure(ctx, d.Text(id.Event))
}
