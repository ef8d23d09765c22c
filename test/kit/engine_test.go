package kit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { Main(m) }

// pingError returns the result of one request to the engine, without waiting until it is ready.
func pingError(t *testing.T, e *Engine) error {
	t.Helper()
	return e.checkReady(t.Context(), e)
}

// A redis-server, as a process or a container, can be frozen, killed, stopped and restarted at the same address.
func TestRedisRestartsAtTheSameAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a redis-server")
	}
	e := Redis(t)
	e.RequireOwned(t)
	e.Freeze(t)
	if pingError(t, e) == nil {
		t.Error("a frozen redis-server answers")
	}
	e.Thaw(t)
	is.OK(t, pingError(t, e), "after thawing")
	for _, end := range []func(testing.TB){e.Kill, e.Stop} {
		end(t)
		if pingError(t, e) == nil {
			t.Error("an ended redis-server answers")
		}
		e.Start(t)
	}
}

// Three brokers elect a new leader after one is killed. When it restarts, its replicas become in sync again.
// e2e.TestCluster needs this of brokers that are processes; with RELAY_TORTURE=1 this test shows it of containers too.
func TestKafkaClusterSurvivesABrokerKill(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("starts three Apache Kafka brokers; set RELAY_TORTURE")
	}
	began := time.Now()
	b := KafkaCluster(t, 3)
	t.Logf("started in %v", time.Since(began).Round(time.Millisecond))
	topic := fmt.Sprintf("kit-%d", time.Now().UnixNano())
	cl := b.Client(t)
	must.Get(cl.CreateTopic(t.Context(), 1, 3, nil, topic))(t)
	leader := b.Leader(t, topic, 0)
	leader.Kill(t)
	killed := time.Now()
	for {
		if next := b.Leader(t, topic, 0); next != leader {
			break
		}
		if time.Since(killed) > 5*time.Minute {
			t.Fatal("no other broker leads after five minutes")
		}
	}
	t.Logf("another broker leads after %v", time.Since(killed).Round(time.Millisecond))
	leader.Start(t)
	for {
		behind, err := b.OutOfSync(t.Context(), topic)
		if err == nil && len(behind) == 0 {
			break
		}
		if time.Since(killed) > 10*time.Minute {
			t.Fatalf("replicas are not in sync: %v %v", behind, err)
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("all replicas in sync after %v", time.Since(killed).Round(time.Millisecond))
}
