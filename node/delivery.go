package node

import (
	"context"
	"slices"
	"time"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/pull"
)

func newDispatcher(n *Node) (runFunc, error) {
	cfg := dispatcher.DefaultConfig()
	cfg.MaxTransformedBody = 2 * n.Settings.MaxBody
	cfg.InstanceID, cfg.RetentionDays, cfg.Version, cfg.Drain = n.InstanceID, n.Settings.RetentionDays,
		n.Settings.Version, deliveryDrain
	transport, err := n.deliveryTransport(&cfg)
	if err != nil {
		return nil, err
	}
	d, err := dispatcher.New(cfg, dispatcher.Deps{
		Log: n.Log, Stream: n.Stream, Producer: n.Producer, Config: n.Control, Updater: n.Control, Keyring: n.Keyring,
		Transport: transport, IDs: n.ids, Now: n.Control.Now, Metrics: n.registry, OnOwned: n.setOwnedPartitions,
		Limiter: n.Limiter, Held: n.Limiter, Erased: n.Control.Erased, UseHit: n.UseHit, Spans: n.spans,
		Delivered: n.deliveredByRuns,
	})
	if err != nil {
		return nil, err
	}
	n.pulls = n.newRouter(d.Pulls())
	return d.Run, nil
}

// deliveredByRuns is dispatcher.Deps.Delivered. Without a run in the configuration, which keeps runs for 30 days, a
// start does not wait for the store.
func (n *Node) deliveredByRuns(
	ctx context.Context, limit int, each func(run string, event id.ID, dest string, ended time.Time)) error {
	if v := n.Control.View(); v.Len(entity.KindRun)+v.Len(entity.KindRecovery) == 0 {
		return nil
	}
	return n.Reader.DeliveredByRuns(ctx, limit, each)
}

// newRecovery creates the runner of recovery jobs for the partitions that this node dispatches.
func newRecovery(n *Node) (runFunc, error) {
	r, err := recovery.New(recovery.Deps{
		Log: n.Log, Jobs: n.Control, Endpoints: n.Control, Store: n.Reader, Submitter: submitter{n.Producer},
		Now: n.Control.Now, NewName: func() string { return id.Random("") },
	})
	if err != nil {
		return nil, err
	}
	n.recovery = r
	return r.Run, nil
}

// newRouter creates what passes pulls to the nodes that own the partitions. local is nil without the role dispatch.
func (n *Node) newRouter(local pull.Owner) *pull.Router {
	deps := pull.RouterDeps{Local: local, Key: n.Control.PullKey, Owned: n.Owned}
	if bus := n.Settings.Limit().NewBus(); bus != nil && !n.Settings.Embedded {
		deps.Bus = bus
	}
	return pull.NewRouter(deps)
}

// newPulls runs the router that newDispatcher has created, or one of a node that only asks.
func newPulls(n *Node) (runFunc, error) {
	if n.pulls == nil {
		n.pulls = n.newRouter(nil)
	}
	return n.pulls.Run, nil
}

// setOwnedPartitions passes to the components which partitions of events this node dispatches. The owner of the first
// one writes snapshots, trims the log, erases payloads and drops expired days for all nodes.
func (n *Node) setOwnedPartitions(partitions []int32) {
	n.owned.Store(&partitions)
	n.pulls.Changed()
	n.OwnsFirstPartition.Store(slices.Contains(partitions, 0))
	n.Control.SetOwner(n.OwnsFirstPartition.Load())
	n.trimmer.SetOwner(n.OwnsFirstPartition.Load())
	if n.recovery != nil {
		n.recovery.SetOwned(partitions)
	}
}

// ownedPartitions is features.Host.Owned.
func (n *Node) ownedPartitions() []int32 {
	if owned := n.owned.Load(); owned != nil {
		return *owned
	}
	return nil
}

// ownEndpoints implements assigned.Endpoints.
type ownEndpoints struct {
	*config.Control
	owned func() []int32
}

func (o ownEndpoints) OwnsPartition(partition int32) bool {
	return slices.Contains(o.owned(), partition)
}
