package node

import (
	"context"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/stream"
)

// newFeed creates the source of event streams. It reads the log by itself, so that nodes without the role dispatch
// serve streams too.
func newFeed(n *Node) (runFunc, error) {
	topic, err := stream.NewReader(n.stream, "feed")
	if err != nil {
		return nil, err
	}
	n.feed, err = feed.New(feed.Deps{
		Log: n.log, Topic: topic, Store: n.reader, Now: n.now, Retention: n.settings.retention(),
		Erased: n.control.Erased,
	})
	if err != nil {
		topic.Close()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer topic.Close()
		return n.feed.Run(ctx)
	}, nil
}
