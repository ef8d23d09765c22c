package kit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type dialer func(network, address string) (net.Conn, error)

// Brokers is an Apache Kafka of several brokers.
type Brokers struct {
	Addr string    // of all, with commas between
	Each []*Engine // none when they were found, not started

	dial dialer
}

// Client returns a client of the cluster that the test closes with its end.
func (b *Brokers) Client(t testing.TB) *kadm.Client {
	t.Helper()
	cl, err := b.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (b *Brokers) client() (*kadm.Client, error) { return b.clientOf(strings.Split(b.Addr, ",")...) }

func (b *Brokers) clientOf(addrs ...string) (*kadm.Client, error) {
	return kadm.NewOptClient(
		kgo.SeedBrokers(addrs...), kgo.DialTimeout(2*time.Second), kgo.RequestRetries(2*max(1, len(b.Each))),
		kgo.Dialer(func(_ context.Context, network, host string) (net.Conn, error) { return b.dial(network, host) }))
}

// Start starts all that do not run, at once, and waits until each is in the cluster.
func (b *Brokers) Start(t testing.TB) {
	t.Helper()
	for _, e := range b.Each {
		e.launch(t)
	}
	for _, e := range b.Each {
		e.await(t)
	}
}

// Leader returns the broker that leads a partition. A broker learns of a new topic, and of an election, a moment after
// the controller: it is asked until there is an answer, for leaderLimit at most.
func (b *Brokers) Leader(t testing.TB, topic string, partition int32) *Engine {
	t.Helper()
	if len(b.Each) == 0 {
		Absent(t, "brokers that were found cannot be stopped by a test")
	}
	cl := b.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), leaderLimit)
	defer cancel()
	for {
		id, err := leads(ctx, cl, topic, partition)
		switch {
		case err == nil && id >= 1 && id <= len(b.Each):
			return b.Each[id-1]
		case ctx.Err() != nil:
			t.Fatalf("who leads %s-%d: broker %d, %v", topic, partition, id, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

const leaderLimit = 2 * time.Minute

func leads(ctx context.Context, cl *kadm.Client, topic string, partition int32) (id int, err error) {
	details, err := cl.ListTopics(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return 0, err
	}
	return int(details[topic].Partitions[partition].Leader), nil
}

// InSync reports which partitions lack a copy that keeps up, of topics whose names begin with the prefix;
// none when all keep up.
func (b *Brokers) InSync(ctx context.Context, prefix string) (behind []string, err error) {
	cl, err := b.client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	details, err := cl.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	for _, topic := range details.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			if strings.HasPrefix(topic.Topic, prefix) && len(p.ISR) < len(p.Replicas) {
				behind = append(behind, fmt.Sprintf("%s-%d has %v of %v", topic.Topic, p.Partition, p.ISR, p.Replicas))
			}
		}
	}
	return behind, nil
}

// knows is nil when the broker at the address takes requests and says that it is a member of the cluster. The others
// may say so a moment before a client reaches it.
func (b *Brokers) knows(ctx context.Context, addr string, id int32) error {
	members, err := b.members(ctx, addr)
	if err == nil && !slices.Contains(members, id) {
		err = fmt.Errorf("broker %d is not among %v", id, members)
	}
	return err
}

// complete is nil when n or more brokers take requests.
func (b *Brokers) complete(ctx context.Context, n int) error {
	members, err := b.members(ctx, strings.Split(b.Addr, ",")...)
	if err == nil && len(members) < n {
		err = fmt.Errorf("there are %v", members)
	}
	return err
}

func (b *Brokers) members(ctx context.Context, addrs ...string) ([]int32, error) {
	cl, err := b.clientOf(addrs...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	meta, err := cl.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	return meta.Brokers.NodeIDs(), nil
}
