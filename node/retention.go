package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
)

// embeddedLogMax is how many bytes of committed records the embedded log keeps: it reads all of them when it starts, a
// gigabyte in 0.3 s.
const embeddedLogMax = 1 << 30

// newTrimmer creates the trimmer, which deletes records that every consumer group has committed. It works only while
// this node owns the first partition.
func newTrimmer(n *Node) (runFunc, error) {
	cfg := stream.DefaultTrimConfig()
	cfg.KeepAge = time.Duration(n.Settings.LogKeepMinutes) * time.Minute
	if n.Settings.Embedded {
		cfg.MaxBytes = embeddedLogMax
	}
	var err error
	if n.trimmer, err = stream.NewTrimmer(
		cfg, stream.TrimDeps{Log: n.Log, Stream: n.Stream, Metrics: n.registry, Now: n.Control.Now}); err != nil {
		return nil, err
	}
	return n.trimmer.Run, nil
}

// newGuard creates the guard, which compares the age of the oldest unprocessed record of each consumer group with
// retention.
func newGuard(n *Node) (runFunc, error) {
	var err error
	n.guard, err = stream.NewRetentionGuard(stream.RetentionGuardDeps{
		Log: n.Log, Stream: n.Stream, Metrics: n.registry, Now: n.Control.Now, Retention: n.Settings.Retention(),
	})
	if err != nil {
		return nil, err
	}
	return n.guard.Run, nil
}

// newEraser creates the eraser, which deletes erased payloads from the store.
func newEraser(n *Node) (runFunc, error) {
	deps := write.EraserDeps{ChoreDeps: n.choreDeps(), Erasures: erasures{n.Control}, Now: n.Control.Now}
	return write.NewEraser(write.EraserConfig{}, deps).Run, nil
}

// newExpirer creates the expirer, which drops days from the store whose retention has ended.
func newExpirer(n *Node) (runFunc, error) {
	return write.NewExpirer(0, n.choreDeps()).Run, nil
}

func (n *Node) choreDeps() write.ChoreDeps {
	return write.ChoreDeps{Log: n.Log, Store: n.Reader, IsOwner: n.OwnsFirstPartition.Load, Metrics: n.registry}
}

// erasures gives the store the payloads that were erased and are not deleted yet.
type erasures struct{ config *config.Control }

func (e erasures) Unfinished() (account string, erased map[id.ID]time.Time) {
	erased = make(map[id.ID]time.Time)
	for _, x := range e.config.UnfinishedErasures() {
		if d, err := id.Parse(id.Event, x.ID); err == nil { // always: ErasePayload stored it
			account, erased[d] = x.Account, x.CreatedAt
		}
	}
	return account, erased
}

func (e erasures) Finish(ctx context.Context, d id.ID) error {
	return e.config.FinishErasure(ctx, d.Text(id.Event))
}
