package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/eventrelay/relay/pkg/roles"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

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
			n.log.LogAttrs(ctx, slog.LevelWarn, "waiting for Kafka", slog.Any("error", err))
		}
		if wait.For(ctx, pause) != nil {
			return 0, err
		}
	}
}

// checkTopics returns an error if this node may not use the topics and groups, or if topics are missing or have
// settings that would lose or stop events. It returns the number of partitions that new endpoints are spread over.
func (n *Node) checkTopics(ctx context.Context) (int32, error) {
	missing, err := stream.MissingRights(ctx, n.stream, n.settings.hasRole(roles.Dispatch))
	if err = errors.Join(err, stream.RightsError(missing)); err != nil {
		return 0, err
	}
	a, err := stream.AwaitTopics(ctx, n.stream, n.settings.Copies(), func(stream.TopicsReport) bool { return true })
	if err == nil {
		err = a.Err()
	}
	return a.Partitions(), err
}
