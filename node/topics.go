package node

import (
	"context"
	"errors"

	"github.com/eventrelay/relay/pkg/roles"
	"github.com/eventrelay/relay/pkg/stream"
)

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
