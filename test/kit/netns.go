package kit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Network is an isolated network of hosts, each a Linux network namespace: a hub, where engines and destinations run,
// and hosts that are each connected to it by one link. Its hosts cannot reach the machine's own network.
type Network struct {
	Hub *Host

	prefix string // of the names of the namespaces
	hosts  int
}

// Host is one network namespace.
type Host struct {
	Addr netip.Addr

	name string // of the namespace
	hub  string // name of the hub's namespace, at the other end of its link; "" for the hub itself
	port string // name of the link's interface at the hub
}

// networks numbers the networks of this process.
var networks atomic.Int32

// NewNetwork creates a network with a hub. It needs root and iproute2; without them the test is skipped.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		SkipMissing(t, "network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		SkipMissing(t, "network namespaces need iproute2")
	}
	deleteStaleNamespaces()
	n := &Network{prefix: fmt.Sprintf("relay-test-%d-%d-", os.Getpid(), networks.Add(1))}
	n.Hub = &Host{Addr: n.address(), name: n.prefix + "hub"}
	if out, err := exec.Command("ip", "netns", "add", n.Hub.name).CombinedOutput(); err != nil {
		SkipMissing(t, "network namespaces: %v: %s", err, out)
	}
	n.Hub.removeLater(t)
	n.Hub.ip(t, "link", "set", "lo", "up")
	n.Hub.ip(t, "link", "add", "bridge", "type", "bridge")
	n.Hub.ip(t, "address", "add", n.Hub.Addr.String()+"/24", "dev", "bridge")
	n.Hub.ip(t, "link", "set", "bridge", "up")
	return n
}

// Prefix returns the network of all hosts in CIDR notation.
func (n *Network) Prefix() string { return netip.PrefixFrom(n.Hub.Addr, 24).Masked().String() }

func (n *Network) address() netip.Addr {
	n.hosts++
	return netip.AddrFrom4([4]byte{10, 231, 0, byte(n.hosts)})
}

// Host creates a host that is connected to the hub.
func (n *Network) Host(t testing.TB, name string) *Host {
	t.Helper()
	h := &Host{Addr: n.address(), name: n.prefix + name, hub: n.Hub.name, port: fmt.Sprintf("port%d", n.hosts)}
	if out, err := exec.Command("ip", "netns", "add", h.name).CombinedOutput(); err != nil {
		t.Fatalf("add namespace %s: %v: %s", h.name, err, out)
	}
	h.removeLater(t)
	n.Hub.ip(t, "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.name)
	n.Hub.ip(t, "link", "set", h.port, "master", "bridge", "up")
	h.ip(t, "link", "set", "lo", "up")
	h.ip(t, "address", "add", h.Addr.String()+"/24", "dev", "eth0")
	h.ip(t, "link", "set", "eth0", "up")
	return h
}

// Cut disconnects the host: nothing it sends arrives, and nothing reaches it. Connections stay open.
func (h *Host) Cut(t testing.TB) {
	t.Helper()
	(&Host{name: h.hub}).ip(t, "link", "set", h.port, "down")
}

// Heal connects the host again after Cut.
func (h *Host) Heal(t testing.TB) {
	t.Helper()
	(&Host{name: h.hub}).ip(t, "link", "set", h.port, "up")
}

// CutFrom disconnects the host from another one only: no packet passes between the two. Connections stay open.
func (h *Host) CutFrom(t testing.TB, other *Host) {
	t.Helper()
	h.ip(t, "route", "add", "blackhole", other.Addr.String()+"/32")
	other.ip(t, "route", "add", "blackhole", h.Addr.String()+"/32")
}

// HealFrom connects the two hosts again after CutFrom.
func (h *Host) HealFrom(t testing.TB, other *Host) {
	t.Helper()
	h.ip(t, "route", "delete", "blackhole", other.Addr.String()+"/32")
	other.ip(t, "route", "delete", "blackhole", h.Addr.String()+"/32")
}

// Start starts a command on the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.inNamespace(cmd.Start) }

// Listen listens on a free port of the host's address.
func (h *Host) Listen(t testing.TB) net.Listener {
	t.Helper()
	var l net.Listener
	err := h.inNamespace(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(h.Addr.String(), "0"))
		return err
	})
	if err != nil {
		t.Fatalf("listen on %s: %v", h.Addr, err)
	}
	return l
}

// Dial connects from the host, within five seconds.
func (h *Host) Dial(network, address string) (conn net.Conn, err error) {
	err = h.inNamespace(func() error {
		conn, err = net.DialTimeout(network, address, 5*time.Second)
		return err
	})
	return conn, err
}

// DialContext is Dial with the signature that Kafka and HTTP clients expect. It ignores the context.
func (h *Host) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	return h.Dial(network, address)
}

// Transport returns an HTTP transport that connects from the host.
func (h *Host) Transport() *http.Transport {
	return &http.Transport{DialContext: h.DialContext, MaxIdleConnsPerHost: 256}
}

// Redis returns a redis-server on the host.
func (h *Host) Redis(t testing.TB) *Engine {
	t.Helper()
	e := &Engine{Description: "redis-server, a process in a namespace", checkReady: checkPing, startLimit: 5 * time.Minute,
		dial: h.Dial}
	p := redisProcess(t, h.Addr.String(), 6379)
	p.inNamespace = h.inNamespace
	e.Addr, e.runner = net.JoinHostPort(h.Addr.String(), "6379"), p
	e.URL = "redis://" + e.Addr
	return startEngine(t, e)
}

// Kafka returns an Apache Kafka broker on the host.
func (h *Host) Kafka(t testing.TB) *Engine {
	t.Helper()
	return h.KafkaCluster(t, 1).Engines[0]
}

// KafkaCluster returns an Apache Kafka cluster of n brokers on the host, as the function KafkaCluster does.
func (h *Host) KafkaCluster(t testing.TB, n int) *Brokers {
	t.Helper()
	s := brokerPlacement{description: "Apache Kafka, a process in a namespace", bind: h.Addr.String(),
		host: h.Addr.String(),
		peer: h.Addr.String(), dial: h.Dial}
	s.newRunner = func(_, _ int, properties []string) runner {
		p := kafkaProcess(t, properties)
		p.inNamespace = h.inNamespace
		return p
	}
	return startBrokers(t, s, n)
}

// ip runs iproute2's ip inside the namespace.
func (h *Host) ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", append([]string{"-netns", h.name}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s in %s: %v: %s", strings.Join(args, " "), h.name, err, out)
	}
}

func (h *Host) removeLater(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", h.name).CombinedOutput(); err != nil {
			t.Errorf("delete namespace %s: %v: %s", h.name, err, out)
		}
	})
}

// netnsDir is where iproute2 keeps the names of namespaces.
const netnsDir = "/run/netns"

// deleteStaleNamespaces deletes namespaces whose test process no longer exists: a killed test cannot clean up.
func deleteStaleNamespaces() {
	left, err := filepath.Glob(filepath.Join(netnsDir, "relay-test-*"))
	if err != nil {
		return // BUG: the pattern is fixed
	}
	for _, path := range left {
		name := filepath.Base(path)
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, "relay-test-"), "-")
		if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, 0) == syscall.ESRCH {
			// Another test process may delete it at the same moment.
			_ = exec.Command("ip", "netns", "delete", name).Run()
		}
	}
}
