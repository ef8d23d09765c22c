package node

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/eventrelay/relay/pkg/stream"
)

// checkConfiguration refuses to dispatch when deliveries wait and the configuration has never had an endpoint: it was
// lost, and each of them would end as skipped (endpoint_deleted), for good. On a new installation nothing waits.
// There is nothing to run.
func checkConfiguration(n *Node) (runFunc, error) {
	if n.control.HasHadEndpoints() {
		return nil, nil
	}
	ctx := n.stack.Context()
	log, err := stream.NewReader(n.stream, "configuration-check")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	backlogs, err := log.BacklogsAtStart(ctx, stream.DispatchGroup, stream.ReadBy(stream.DispatchGroup)...)
	if err != nil {
		return nil, fmt.Errorf("read what waits to be delivered: %w", err)
	}
	var waiting int64
	for _, b := range backlogs {
		waiting += b.Records
	}
	switch {
	case waiting == 0:
		return nil, nil
	case n.settings.AllowEmpty:
		n.log.LogAttrs(ctx, slog.LevelWarn,
			"the configuration has no endpoint: deliveries of unknown endpoints end as skipped",
			slog.Int64("records", waiting))
		return nil, nil
	}
	return nil, fmt.Errorf("%d records wait to be delivered: %w", waiting, errLostConfiguration)
}

// errLostConfiguration says what to do when the configuration is empty although deliveries wait.
var errLostConfiguration = errors.New("the configuration has no endpoint, so all of them would end as skipped, " +
	"and that is final. Start one node with --roles api, run relay config import FILE --paused there, then start this " +
	"node again (docs/operate/upgrade.md, The configuration). If there is no export and they may be given up, set " +
	"RELAY_ALLOW_EMPTY_CONFIGURATION=true for this start")
