package kit

import (
	"fmt"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// answers reports what an engine says now, without waiting until it is ready.
func answers(t *testing.T, e *Engine) error {
	t.Helper()
	return e.ready(t.Context(), e)
}

// Whatever a redis-server runs as, it can be frozen, killed and started again at the same address.
func TestRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a redis-server")
	}
	e := Redis(t)
	e.Owned(t)
	e.Freeze(t)
	if answers(t, e) == nil {
		t.Error("a frozen one answers")
	}
	e.Thaw(t)
	if err := answers(t, e); err != nil {
		t.Errorf("after thawing: %v", err)
	}
	for _, end := range []func(testing.TB){e.Kill, e.Stop} {
		end(t)
		if answers(t, e) == nil {
			t.Error("one that has ended answers")
		}
		e.Start(t)
	}
}

// Three brokers elect a leader without the one that was killed, and take it in again with its data.
func TestKafkaCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three Apache Kafka brokers")
	}
	began := time.Now()
	b := KafkaCluster(t, 3)
	t.Logf("started in %v", time.Since(began).Round(time.Millisecond))
	topic := fmt.Sprintf("testkit-%d", time.Now().UnixNano())
	cl := b.Client(t)
	if _, err := cl.CreateTopic(t.Context(), 1, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
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
	t.Logf("led by another after %v", time.Since(killed).Round(time.Millisecond))
	leader.Start(t)
	for {
		behind, err := b.InSync(t.Context(), topic)
		if err == nil && len(behind) == 0 {
			break
		}
		if time.Since(killed) > 10*time.Minute {
			t.Fatalf("not in sync: %v %v", behind, err)
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("all copies in sync after %v", time.Since(killed).Round(time.Millisecond))
}
