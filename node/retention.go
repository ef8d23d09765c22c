package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
)

// embeddedKept is how much of the embedded log is kept although it was done, in bytes: the engine reads all of it
// when it starts, a gigabyte in 1.4 s.
const embeddedKept = 1 << 30

// newTrimmer deletes from the log what everybody has done. It waits to be told that this node is the one.
func (n *Node) newTrimmer() (func(context.Context) error, error) {
	cfg := stream.DefaultTrimConfig()
	cfg.KeepAge = time.Duration(n.s.LogKeepMinutes) * time.Minute
	if n.s.Embedded {
		cfg.MaxBytes = embeddedKept
	}
	var err error
	if n.trimmer, err = stream.NewTrimmer(
		cfg, stream.TrimDeps{Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.control.Now}); err != nil {
		return nil, err
	}
	return n.trimmer.Run, nil
}

// retention is how long events are kept.
func (s Config) retention() time.Duration { return time.Duration(s.RetentionDays) * 24 * time.Hour }

// newGuard looks whether what is accepted is done in time.
func (n *Node) newGuard() (func(context.Context) error, error) {
	var err error
	n.guard, err = stream.NewRetentionGuard(stream.RetentionGuardDeps{
		Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.control.Now, Retention: n.s.retention(),
	})
	if err != nil {
		return nil, err
	}
	return n.guard.Run, nil
}

// newEraser takes the payloads that were erased out of the store.
func (n *Node) newEraser() (func(context.Context) error, error) {
	deps := write.EraserDeps{ChoreDeps: n.choreDeps(), Erasures: erasures{n.control}, Now: n.control.Now}
	return write.NewEraser(write.EraserConfig{}, deps).Run, nil
}

// newExpirer takes the days whose retention has ended out of the store.
func (n *Node) newExpirer() (func(context.Context) error, error) {
	return write.NewExpirer(0, n.choreDeps()).Run, nil
}

func (n *Node) choreDeps() write.ChoreDeps {
	return write.ChoreDeps{Log: n.log, Store: n.reader, IsOwner: n.first.Load, Metrics: n.registry}
}

// erasures is the list of what was erased, as the store asks for it.
type erasures struct{ config *config.Control }

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
