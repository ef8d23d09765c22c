package node

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eventrelay/relay/ingest/source"
	"github.com/eventrelay/relay/pkg/egress"
)

// statusLife is how long the status of a source is shown after the last one.
const statusLife = time.Minute

// newSources creates the reader of the sources of endpoints in the partitions that this node dispatches.
func newSources(n *Node) (runFunc, error) {
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	return source.New(source.Deps{
		Log: n.log, Endpoints: n.control, Keyring: n.keyring, Dial: transport.Dial, Take: n.ingest.Take,
		MaxBody: n.ingest.MaxBody(), Now: n.now, Metrics: n.registry,
		Owns: func(partition int32) bool {
			owned := n.owned.Load()
			return owned != nil && slices.Contains(*owned, partition)
		},
		Show: func(endpoint string, s source.Status) {
			text, _ := json.Marshal(s)
			n.limiter.SetSourceStatus(endpoint, string(text), statusLife)
		},
	}).Run, nil
}

// SourceStatus implements frame.LimiterStore.
func (s limiterStore) SourceStatus(ctx context.Context, endpoint string) string {
	return s.held.SourceStatus(ctx, endpoint)
}
