package node

import (
	"context"

	"github.com/eventrelay/relay/pkg/stream"
)

// checkTopics returns an error if topics are missing or have settings that would lose or stop events. It returns the
// number of partitions that new endpoints are spread over.
func (n *Node) checkTopics(ctx context.Context) (int32, error) {
	a, err := stream.AwaitTopics(ctx, n.stream, n.s.Copies(), func(stream.TopicsReport) bool { return true })
	if err == nil {
		err = a.Err()
	}
	return a.Partitions(), err
}
