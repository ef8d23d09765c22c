package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/leaks/decider"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
)

// newDecider creates the decider of findings, for the partitions of findings that this node owns.
func newDecider(n *Node) (runFunc, error) {
	caughtUp := func(ctx context.Context) error { return read.FindingsCaughtUp(ctx, n.reader) }
	d, err := decider.New(decider.Config{InstanceID: n.instanceID(), Partitions: n.partitions}, decider.Deps{
		Log: n.log, Stream: n.stream, Config: n.control, History: n.control,
		Store:    findingTable{write.NewFindingTable(n.reader, caughtUp), n.control},
		Notifier: n.alerts, Now: n.control.Now, Metrics: n.registry,
	})
	if err != nil {
		return nil, err
	}
	n.droppedHits = d.DroppedHits
	return d.Run, nil
}

// findingTable gives the decider the findings of the one account in the store.
type findingTable struct {
	table  *write.FindingTable
	config *config.Control
}

func (f findingTable) LastHits(ctx context.Context, ids []string) (map[string]time.Time, error) {
	return f.table.LastHits(ctx, f.config.Account().ID, ids)
}

func (f findingTable) DeleteFindings(ctx context.Context, ids []string) error {
	return f.table.DeleteFindings(ctx, f.config.Account().ID, ids)
}
