package brokers_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/brokers"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/test/kit"
)

// What a client cancels as it closes does not hide why it could not connect.
func TestErrorOfTheConnection(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	var calls, cancelled atomic.Int32
	var failed atomic.Pointer[error]
	both := make(chan struct{})
	_, err := brokers.Open(t.Context(), kinds.Kafka{Brokers: []string{"127.0.0.1:1", "127.0.0.1:2"}, Topic: "orders"},
		func(ctx context.Context, _ string, _ bool, _ []byte) (net.Conn, error) {
			switch calls.Add(1) {
			case 1:
				<-both
				return nil, refused
			case 2:
				close(both)
			}
			<-ctx.Done()
			defer cancelled.Add(1)
			return nil, ctx.Err()
		}, &failed, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset()}}))
	kit.WaitFor(t, "the connection that is cancelled", func() bool { return cancelled.Load() > 0 })
	if why := failed.Load(); err == nil || why == nil || !errors.Is(*why, refused) {
		t.Errorf("%v, %v", err, why)
	}
}
