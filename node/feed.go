package node

import (
	"context"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/stream"
)

// startFeed starts what event streams are served from. It reads the log on its own: a node without a dispatcher serves
// streams too.
func (n *Node) startFeed() (*feed.Feed, error) {
	topic, err := stream.NewReader(n.stream, "feed")
	if err != nil {
		return nil, err
	}
	f, err := feed.New(feed.Deps{
		Log: n.log, Topic: topic, Store: n.reader, Now: n.now, Retention: n.s.retention(),
		Erased: n.control.Erased,
	})
	if err != nil {
		topic.Close()
		return nil, err
	}
	n.st.Start("event feed", func(ctx context.Context) error {
		defer topic.Close()
		return f.Run(ctx)
	})
	return f, nil
}
