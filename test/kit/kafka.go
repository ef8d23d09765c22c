package kit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/network"
)

// Kafka returns an Apache Kafka broker: the one at RELAY_TEST_KAFKA_BROKERS; else a container of RELAY_TEST_KAFKA_IMAGE
// or of the image that test/engines/image.sh builds; else a process that runs the jars of test/engines/fetch.sh.
func Kafka(t testing.TB) *Engine {
	t.Helper()
	if addrs := os.Getenv("RELAY_TEST_KAFKA_BROKERS"); addrs != "" {
		return externalEngine(t, &Engine{Addr: addrs, Description: "Kafka at RELAY_TEST_KAFKA_BROKERS"})
	}
	return startBrokers(t, kafkaPlacement(t, 1), 1).Engines[0]
}

// KafkaCluster returns an Apache Kafka cluster of n brokers, chosen as Kafka chooses one broker. Its internal topics
// have n replicas, so a cluster of three works without any one of them.
func KafkaCluster(t testing.TB, n int) *Brokers {
	t.Helper()
	if addrs := os.Getenv("RELAY_TEST_KAFKA_BROKERS"); addrs != "" {
		b := &Brokers{Addr: addrs, dial: net.Dial}
		if err := b.checkSize(t.Context(), n); err != nil {
			SkipMissing(t, "%d brokers at RELAY_TEST_KAFKA_BROKERS: %v", n, err)
		}
		t.Logf("runs on Kafka at RELAY_TEST_KAFKA_BROKERS")
		return b
	}
	return startBrokers(t, kafkaPlacement(t, n), n)
}

// brokerPlacement is where brokers run and how they are reached.
type brokerPlacement struct {
	description string
	bind        string // address that their listeners bind
	host        string // address under which clients reach them
	peer        string // address under which they reach each other; %d is the broker's id
	dial        dialer
	newRunner   func(id, port int, properties []string) runner // port is for clients
}

func kafkaPlacement(t testing.TB, n int) brokerPlacement {
	t.Helper()
	image := chooseImage(t, "Apache Kafka", "RELAY_TEST_KAFKA_IMAGE")
	if image == "" {
		return brokerPlacement{
			description: "Apache Kafka, a process of its own", bind: "127.0.0.1", host: "127.0.0.1", peer: "127.0.0.1",
			dial:      net.Dial,
			newRunner: func(_, _ int, properties []string) runner { return kafkaProcess(t, properties) },
		}
	}
	s := brokerPlacement{description: "Apache Kafka, a container", bind: "0.0.0.0", host: "127.0.0.1", peer: "127.0.0.1",
		dial: net.Dial}
	if n > 1 {
		s.peer = "broker-%d"
	}
	net := ""
	if n > 1 {
		net = dockerNetwork(t)
	}
	script := filepath.Join(Root(t), "test", "engines", "kafka.sh")
	s.newRunner = func(id, port int, properties []string) runner {
		return &containerRunner{
			image: image, command: append([]string{"/kafka.sh", "/tmp/relay-kafka"}, properties...), ports: []int{port},
			files: map[string]string{script: "/kafka.sh"}, network: net, alias: fmt.Sprintf("broker-%d", id),
		}
	}
	return s
}

// dockerNetwork creates a Docker network on which containers find each other by name.
func dockerNetwork(t testing.TB) string {
	t.Helper()
	n, err := network.New(t.Context())
	if err != nil {
		t.Fatalf("cannot create the Docker network: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := n.Remove(ctx); err != nil {
			t.Errorf("cannot remove the Docker network: %v", err)
		}
	})
	return n.Name
}

func kafkaProcess(t testing.TB, properties []string) *process {
	t.Helper()
	root := Root(t)
	if _, err := os.Stat(filepath.Join(root, "bin", "engines", "kafka", "pom.sum")); err != nil {
		SkipMissing(t, "Apache Kafka has no jars here; run test/engines/fetch.sh")
	}
	if _, err := exec.LookPath("java"); err != nil {
		SkipMissing(t, "Apache Kafka needs java")
	}
	return &process{command: append(
		[]string{filepath.Join(root, "test", "engines", "kafka.sh"), t.TempDir()}, properties...)}
}

// startBrokers starts n brokers at once and waits until they are one cluster.
func startBrokers(t testing.TB, s brokerPlacement, n int) *Brokers {
	t.Helper()
	ports := make([]int, 3*n) // for clients, brokers, controllers
	for i := range ports {
		ports[i] = FreePort(t)
	}
	peer := func(id int) string {
		if strings.Contains(s.peer, "%d") {
			return fmt.Sprintf(s.peer, id)
		}
		return s.peer
	}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", i+1, peer(i+1), ports[2*n+i]))
	}
	b := &Brokers{dial: s.dial}
	var addrs []string
	for i := range n {
		id, clients, brokers, controllers := i+1, ports[i], ports[n+i], ports[2*n+i]
		addr := fmt.Sprintf("%s:%d", s.host, clients)
		run := s.newRunner(id, clients, []string{
			fmt.Sprintf("node.id=%d", id),
			"controller.quorum.voters=" + strings.Join(voters, ","),
			fmt.Sprintf("listeners=CLIENTS://%s:%d,BROKERS://%s:%d,CONTROLLER://%s:%d", s.bind, clients, s.bind, brokers, s.bind,
				controllers),
			fmt.Sprintf("advertised.listeners=CLIENTS://%s,BROKERS://%s:%d", addr, peer(id), brokers),
			fmt.Sprintf("offsets.topic.replication.factor=%d", n),
			fmt.Sprintf("transaction.state.log.replication.factor=%d", n),
			fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", n),
		})
		t.Cleanup(run.remove)
		addrs = append(addrs, addr)
		b.Engines = append(b.Engines, &Engine{
			Addr: addr, Description: fmt.Sprintf("%s (broker %d of %d)", s.description, id, n), runner: run,
			startLimit: 10 * time.Minute, dial: s.dial,
			checkReady: func(ctx context.Context, _ *Engine) error { return b.checkMember(ctx, addr, int32(id)) },
		})
	}
	b.Addr = strings.Join(addrs, ",")
	b.Start(t)
	t.Logf("runs on %s at %s", b.Engines[0].Description, b.Addr)
	return b
}
