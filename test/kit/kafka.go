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

// Kafka returns an Apache Kafka broker: RELAY_TEST_KAFKA_BROKERS, a container of RELAY_TEST_KAFKA_IMAGE or
// of the image that deploy/engines/image.sh builds, or a process made of the jars that
// deploy/engines/fetch.sh leaves.
func Kafka(t testing.TB) *Engine {
	t.Helper()
	if addrs := os.Getenv("RELAY_TEST_KAFKA_BROKERS"); addrs != "" {
		return found(t, &Engine{Addr: addrs, How: "Kafka at RELAY_TEST_KAFKA_BROKERS"})
	}
	return startBrokers(t, kafkaSite(t, 1), 1).Each[0]
}

// KafkaCluster returns an Apache Kafka of n brokers, had as Kafka has one. Its internal topics have n
// copies, and a cluster of three goes on without any one of them.
func KafkaCluster(t testing.TB, n int) *Brokers {
	t.Helper()
	if addrs := os.Getenv("RELAY_TEST_KAFKA_BROKERS"); addrs != "" {
		b := &Brokers{Addr: addrs, dial: net.Dial}
		if err := b.complete(t.Context(), n); err != nil {
			Absent(t, "%d brokers at RELAY_TEST_KAFKA_BROKERS: %v", n, err)
		}
		t.Logf("runs on Kafka at RELAY_TEST_KAFKA_BROKERS")
		return b
	}
	return startBrokers(t, kafkaSite(t, n), n)
}

// site is where brokers run.
type site struct {
	how  string
	bind string // address that their listeners bind
	host string // address under which clients reach them
	peer string // address under which they reach each other; %d is the broker's id
	dial dialer
	run  func(id, port int, properties []string) runner // port is the one for clients
}

func kafkaSite(t testing.TB, n int) site {
	t.Helper()
	image := choose(t, "Apache Kafka", "RELAY_TEST_KAFKA_IMAGE")
	if image == "" {
		return site{
			how: "Apache Kafka, a process of its own", bind: "127.0.0.1", host: "127.0.0.1", peer: "127.0.0.1", dial: net.Dial,
			run: func(_, _ int, properties []string) runner { return kafkaProcess(t, properties) },
		}
	}
	s := site{how: "Apache Kafka, a container", bind: "0.0.0.0", host: "127.0.0.1", peer: "127.0.0.1", dial: net.Dial}
	if n > 1 {
		s.peer = "broker-%d"
	}
	net := ""
	if n > 1 {
		net = dockerNetwork(t)
	}
	script := filepath.Join(Root(t), "deploy", "engines", "kafka.sh")
	s.run = func(id, port int, properties []string) runner {
		return &contained{
			image: image, command: append([]string{"/kafka.sh", "/tmp/relay-kafka"}, properties...), ports: []int{port},
			files: map[string]string{script: "/kafka.sh"}, network: net, alias: fmt.Sprintf("broker-%d", id),
		}
	}
	return s
}

// dockerNetwork is a network on which containers find each other by name.
func dockerNetwork(t testing.TB) string {
	t.Helper()
	n, err := network.New(t.Context())
	if err != nil {
		t.Fatalf("make a network of containers: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := n.Remove(ctx); err != nil {
			t.Errorf("remove the network of containers: %v", err)
		}
	})
	return n.Name
}

func kafkaProcess(t testing.TB, properties []string) *process {
	t.Helper()
	root := Root(t)
	if _, err := os.Stat(filepath.Join(root, "bin", "engines", "kafka", "pom.sum")); err != nil {
		Absent(t, "Apache Kafka: no jars; deploy/engines/fetch.sh gets them")
	}
	if _, err := exec.LookPath("java"); err != nil {
		Absent(t, "Apache Kafka: no java")
	}
	return &process{command: append(
		[]string{filepath.Join(root, "deploy", "engines", "kafka.sh"), t.TempDir()}, properties...)}
}

// startBrokers starts n brokers at once and waits until they are one cluster.
func startBrokers(t testing.TB, s site, n int) *Brokers {
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
		run := s.run(id, clients, []string{
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
		b.Each = append(b.Each, &Engine{
			Addr: addr, How: fmt.Sprintf("%s (broker %d of %d)", s.how, id, n), run: run, limit: 10 * time.Minute, dial: s.dial,
			ready: func(ctx context.Context, _ *Engine) error { return b.knows(ctx, addr, int32(id)) },
		})
	}
	b.Addr = strings.Join(addrs, ",")
	b.Start(t)
	t.Logf("runs on %s at %s", b.Each[0].How, b.Addr)
	return b
}
