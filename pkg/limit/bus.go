package limit

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// busTimeout bounds an exchange of messages, which may have megabytes.
const busTimeout = 5 * time.Second

// Bus carries messages between nodes through Redis. A message reaches the nodes that listen at that moment; none is
// kept.
type Bus struct{ client *redis.Client }

// NewBus makes a bus with connections of its own; nil without Redis. Run closes it.
func (c Config) NewBus() *Bus {
	c.Timeout = busTimeout
	client, _ := c.client(c.Timeout)
	if client == nil {
		return nil
	}
	return &Bus{client}
}

// Publish sends a message and returns how many nodes listen to the channel.
func (b *Bus) Publish(ctx context.Context, channel string, message []byte) (listeners int64, err error) {
	return b.client.Publish(ctx, channel, message).Result()
}

// Listen calls handle with each message of the channels, until ctx ends. They are asked for again after a value of
// changed. handle must not wait.
func (b *Bus) Listen(
	ctx context.Context, channels func() []string, changed <-chan struct{}, handle func(channel string, message []byte),
) {
	now := channels()
	subscription := b.client.Subscribe(ctx, now...)
	defer b.client.Close()
	defer subscription.Close()
	received := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-received:
			handle(m.Channel, []byte(m.Payload))
		case <-changed:
			before := now
			now = channels()
			// An error is that of the connection: the next one subscribes to all.
			_ = subscription.Subscribe(ctx, without(now, before)...)
			if gone := without(before, now); len(gone) > 0 {
				_ = subscription.Unsubscribe(ctx, gone...)
			}
		}
	}
}

// without returns the texts of all that others has not.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
}
