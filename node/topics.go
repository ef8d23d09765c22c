package node

import (
	"context"

	"github.com/eventrelay/relay/pkg/stream"
)

// checkTopics refuses to start on topics that would lose events or stop them, and returns the number of
// partitions that new endpoints are spread over.
func (n *Node) checkTopics(ctx context.Context) (int32, error) {
	a, err := stream.AwaitTopics(ctx, n.stream, n.s.Copies(), func(stream.TopicsReport) bool { return true })
	if err == nil {
		err = a.Err()
	}
	return a.Partitions(), err
}
