package node

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/eventrelay/relay/ingest/source"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/usage/alert"
)

// statusLife is how long the status of a source is shown after the last one. One that cannot be read says so at least
// every 75 seconds.
const statusLife = 2 * time.Minute

// newSources creates the reader of the sources of endpoints in the partitions that this node dispatches.
func newSources(n *Node) (runFunc, error) {
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	return source.New(source.Deps{
		Log: n.Log, Endpoints: n.Assigned, Keyring: n.Keyring, Dial: transport.Dial,
		Take: n.Ingest.Take, MaxBody: n.Ingest.MaxBody(), Now: n.Now, Metrics: n.registry,
		Show: func(endpoint string, s source.Status) {
			text, _ := json.Marshal(s)
			n.Limiter.SetSourceStatus(endpoint, string(text), statusLife)
		},
	}).Run, nil
}

// sources returns how the endpoints fare that fetch their events.
func (n *Node) sources(ctx context.Context) (known []alert.Source, fetching map[string]bool) {
	fetching = map[string]bool{}
	for _, ep := range n.Control.EndpointsWithInbound() {
		fetching[ep.ID] = true
		said, fault := false, ""
		for _, key := range []string{ep.ID, ep.ID + kinds.ReconcileStatus} {
			var s struct{ Error string }
			if json.Unmarshal([]byte(n.Limiter.SourceStatus(ctx, key)), &s) == nil {
				said, fault = true, cmp.Or(fault, s.Error)
			}
		}
		if said {
			known = append(known, alert.Source{Endpoint: ep.ID, Error: fault})
		}
	}
	return known, fetching
}
