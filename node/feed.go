package node

import (
	"context"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/stream"
)

// newFeed makes what event streams are served from. It reads the log on its own: a node without a dispatcher serves
// streams too.
func (n *Node) newFeed() (func(context.Context) error, error) {
	topic, err := stream.NewReader(n.stream, "feed")
	if err != nil {
		return nil, err
	}
	n.feed, err = feed.New(feed.Deps{
		Log: n.log, Topic: topic, Store: n.reader, Now: n.now, Retention: n.s.retention(),
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
