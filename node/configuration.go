package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

func newControl(n *Node) (runFunc, error) {
	ctx, cancel := context.WithTimeout(n.stack.Context(), time.Minute)
	defer cancel()
	partitions, err := n.awaitLog(ctx)
	if err != nil {
		return nil, err
	}
	n.Partitions = partitions
	n.Control, err = config.New(config.Config{
		Node: n.Settings.NodeName, Version: n.Settings.Version, Partitions: partitions, BootstrapKey: n.Settings.BootstrapKey,
		BootstrapReadKey: n.Settings.BootstrapReadKey, SingleNode: n.Settings.Embedded,
		RetentionDays: n.Settings.RetentionDays, AdminEmail: n.Settings.AdminEmail, AdminPassword: n.Settings.AdminPassword,
		RunProgressTimeout: n.Settings.Waits.RunProgress,
	}, config.Deps{Log: n.Log, Stream: n.Stream, Keyring: n.Keyring, Now: n.Now, Metrics: n.registry})
	if err != nil {
		return nil, err
	}
	n.Assigned = ownEndpoints{n.Control, n.Owned}
	return n.Control.Run, nil
}

// awaitLog returns the number of partitions. It waits until ctx ends for a broker that cannot be reached, which may be
// starting too. A broker that closes the connection is stopping, or expects TLS or a password: it gets 10 s. Every
// other error of the log is returned at once.
func (n *Node) awaitLog(ctx context.Context) (int32, error) {
	const (
		pause  = 500 * time.Millisecond
		ending = 10 * time.Second
	)
	began := time.Now()
	for logged := false; ; logged = true {
		partitions, err := n.checkTopics(ctx)
		var unreachable *net.OpError
		waits := errors.As(err, &unreachable) || errors.Is(err, io.EOF) && time.Since(began) < ending
		if !waits || errors.Is(err, stream.ErrSecurity) {
			return partitions, err
		}
		if !logged {
			n.Log.LogAttrs(ctx, slog.LevelWarn, "waiting for Kafka", slog.Any("error", err))
		}
		if wait.For(ctx, pause) != nil {
			return 0, err
		}
	}
}

// checkTopics returns an error if this node may not use the topics and groups, or if topics are missing or have
// settings that would lose or stop events. It returns the number of partitions that new endpoints are spread over.
func (n *Node) checkTopics(ctx context.Context) (int32, error) {
	missing, err := stream.MissingRights(ctx, n.Stream, n.Settings.HasRole(nodeconfig.RoleDispatch))
	if err = errors.Join(err, stream.RightsError(missing)); err != nil {
		return 0, err
	}
	a, err := stream.AwaitTopics(ctx, n.Stream, n.Settings.Copies(), func(stream.TopicsReport) bool { return true })
	if err == nil {
		err = a.Err()
	}
	return a.Partitions(), err
}

// checkConfiguration refuses to dispatch when deliveries wait and the configuration has never had an endpoint: it was
// lost, and each of them would end as skipped (endpoint_deleted), for good. On a new installation nothing waits.
// There is nothing to run.
func checkConfiguration(n *Node) (runFunc, error) {
	if n.Control.HasHadEndpoints() {
		return nil, nil
	}
	ctx := n.stack.Context()
	log, err := stream.NewReader(n.Stream, "configuration-check")
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
	case n.Settings.AllowEmpty:
		n.Log.LogAttrs(ctx, slog.LevelWarn,
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
