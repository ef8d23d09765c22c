package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A node that starts while its broker is stopping waits for the next broker.
func TestAwaitLog(t *testing.T) {
	t.Parallel()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1)))(t)
	t.Cleanup(cluster.Close)
	var cut atomic.Int64 // connections that are closed at once
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil && cut.Add(-1) >= 0 {
			c.Close()
			return hungUp{c}, nil
		}
		return c, err
	}
	c := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(stream.Migrate(t.Context(), c, 3, 1))(t)
	c.DialFunc = dialer
	var log strings.Builder
	n := &Node{stream: c, settings: Config{Replication: 1}, log: slog.New(slog.NewTextHandler(&log, nil))}
	cut.Store(5)
	ctx, stop := context.WithTimeout(t.Context(), kit.BusyFactor*20*time.Second)
	defer stop()
	partitions, err := n.awaitLog(ctx)
	if err != nil || partitions != 3 {
		t.Errorf("%d partitions, %v", partitions, err)
	}
	if cut.Load() > 0 || !strings.Contains(log.String(), "waiting for Kafka") {
		t.Errorf("%d connections were not tried, %s", cut.Load(), &log)
	}
}

// hungUp is a connection that the other end has closed.
type hungUp struct{ net.Conn }

func (hungUp) Read([]byte) (int, error)    { return 0, io.EOF }
func (hungUp) Write(p []byte) (int, error) { return len(p), nil }
