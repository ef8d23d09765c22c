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
	Addr    string    // host:port of every broker, separated by commas
	Engines []*Engine // by broker id, from 1; empty if RELAY_TEST_KAFKA_BROKERS names the cluster

	dial dialer
}

// Client returns an admin client of the cluster. It is closed when the test ends.
func (b *Brokers) Client(t testing.TB) *kadm.Client {
	t.Helper()
	cl, err := b.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (b *Brokers) client() (*kadm.Client, error) { return b.clientAt(strings.Split(b.Addr, ",")...) }

func (b *Brokers) clientAt(addrs ...string) (*kadm.Client, error) {
	return kadm.NewOptClient(
		kgo.SeedBrokers(addrs...), kgo.DialTimeout(2*time.Second), kgo.RequestRetries(2*max(1, len(b.Engines))),
		kgo.Dialer(func(_ context.Context, network, host string) (net.Conn, error) { return b.dial(network, host) }))
}

// Start starts all stopped brokers at once and waits until each is a member of the cluster.
func (b *Brokers) Start(t testing.TB) {
	t.Helper()
	for _, e := range b.Engines {
		e.launch(t)
	}
	for _, e := range b.Engines {
		e.awaitReady(t)
	}
}

// Leader returns the broker that leads a partition. Brokers learn of a new topic or an election a moment after the
// controller, so Leader asks until there is an answer, for at most leaderLimit.
func (b *Brokers) Leader(t testing.TB, topic string, partition int32) *Engine {
	t.Helper()
	if len(b.Engines) == 0 {
		SkipMissing(t, "a test cannot stop the brokers at RELAY_TEST_KAFKA_BROKERS")
	}
	cl := b.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), leaderLimit)
	defer cancel()
	for {
		id, err := leaderID(ctx, cl, topic, partition)
		switch {
		case err == nil && id >= 1 && id <= len(b.Engines):
			return b.Engines[id-1]
		case ctx.Err() != nil:
			t.Fatalf("no broker of this test leads %s-%d: the leader is broker %d, error %v", topic, partition, id, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

const leaderLimit = 2 * time.Minute

func leaderID(ctx context.Context, cl *kadm.Client, topic string, partition int32) (id int, err error) {
	details, err := cl.ListTopics(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return 0, err
	}
	return int(details[topic].Partitions[partition].Leader), nil
}

// OutOfSync describes the partitions whose in-sync replica set lacks a replica, of topics whose names begin with
// prefix. It returns none if all replicas are in sync.
func (b *Brokers) OutOfSync(ctx context.Context, prefix string) (behind []string, err error) {
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
				behind = append(behind, fmt.Sprintf(
					"%s-%d: in sync %v of replicas %v", topic.Topic, p.Partition, p.ISR, p.Replicas))
			}
		}
	}
	return behind, nil
}

// checkMember returns nil if the broker at addr takes requests and lists id as a member of the cluster. It asks the
// broker itself, because the others list it a moment before a client can reach it.
func (b *Brokers) checkMember(ctx context.Context, addr string, id int32) error {
	members, err := b.members(ctx, addr)
	if err == nil && !slices.Contains(members, id) {
		err = fmt.Errorf("broker %d is not among the members %v", id, members)
	}
	return err
}

// checkSize returns nil if the cluster has at least n brokers.
func (b *Brokers) checkSize(ctx context.Context, n int) error {
	members, err := b.members(ctx, strings.Split(b.Addr, ",")...)
	if err == nil && len(members) < n {
		err = fmt.Errorf("the cluster has only the brokers %v", members)
	}
	return err
}

func (b *Brokers) members(ctx context.Context, addrs ...string) ([]int32, error) {
	cl, err := b.clientAt(addrs...)
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
