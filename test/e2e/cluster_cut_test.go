package e2e

import (
	"testing"

	"github.com/eventrelay/relay/test/kit"
)

// clusterOn is newNamespacedCluster for a network whose hub has Kafka brokers.
func clusterOn(t *testing.T, network *kit.Network, brokers, name string, nodes []string, env ...string) *cluster {
	t.Helper()
	hub := network.Hub
	dir := t.TempDir()
	store := newProcess(t, dir,
		[]string{"engine", "clickhouse", "--data", dir, "--fsync=false", "--host", hub.Addr.String()})
	// without a secret the engine binds loopback only; the nodes reach it through a forwarder
	store.host, store.url = hub, "127.0.0.1:0"
	store.start()
	on := engines{brokers, hub.Redis(t).Addr, hub.Forward(t, store.url)}
	c := newCluster(t, on, name,
		append([]string{allowHTTP, "RELAY_EGRESS_ALLOW=" + network.Prefix(), "RELAY_TAKEOVER_SECONDS=6"}, env...)...)
	c.network, c.hosts = network, map[string]*kit.Host{}
	for _, n := range nodes {
		c.hosts[n] = network.Host(t, n)
	}
	return c
}
