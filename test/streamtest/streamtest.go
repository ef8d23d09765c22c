// Package streamtest starts a Kafka in memory that has the topics of the service, for tests of packages that use it.
package streamtest

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/stream"
)

// Broker starts a broker on loopback that ends with the test. Topics by endpoint have that many partitions.
func Broker(tb testing.TB, partitions int32, opts ...kfake.Opt) (*kfake.Cluster, stream.Config) {
	tb.Helper()
	cluster := start(tb, opts)
	tb.Cleanup(cluster.Close)
	return cluster, migrated(tb, partitions, stream.Config{Brokers: cluster.ListenAddrs()})
}

// BrokerInBubble is Broker for tests with fake time (package synctest): clients reach it on a network in memory. What
// the test closes by defer is closed before it.
func BrokerInBubble(t *testing.T, partitions int32) (*kfake.Cluster, stream.Config) {
	t.Helper()
	var network kfake.VirtualNetwork
	cluster := start(t, []kfake.Opt{kfake.Ports(9092), kfake.ListenFn(network.Listen)})
	t.Cleanup(func() {
		cluster.Close()
		synctest.Wait()
	})
	return cluster, migrated(t, partitions,
		stream.Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext})
}

func start(tb testing.TB, opts []kfake.Opt) *kfake.Cluster {
	tb.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return cluster
}

func migrated(tb testing.TB, partitions int32, conf stream.Config) stream.Config {
	tb.Helper()
	conf.Prefix = "relay."
	if _, err := stream.Migrate(tb.Context(), conf, partitions, 1); err != nil {
		tb.Fatal(err)
	}
	return conf
}
