package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestMain runs the tests or, in a child process of a test, the broker that the test kills.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// running is a broker that a test started in this process.
type running struct {
	*Server
	stop func() error // ends Run and returns its error
	wait func() error // waits until Run ends by itself and returns its error
}

// serve starts a broker on dir and stops it when the test ends. change may adjust it before the start.
func serve(tb testing.TB, cfg Config, change ...func(*Server)) running {
	tb.Helper()
	s := must.Get(New(cfg, Deps{Log: testLog(tb)}))(tb)
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	wait := sync.OnceValue(func() error { return <-ended })
	stop := func() error {
		cancel()
		return wait()
	}
	tb.Cleanup(func() { stop() })
	select {
	case <-s.Ready():
	case err := <-ended:
		tb.Fatalf("Run ended early: %v", err)
	case <-time.After(2 * time.Minute):
		tb.Fatal("broker is not ready")
	}
	return running{s, stop, wait}
}

func testConfig(tb testing.TB) Config {
	cfg := DefaultConfig()
	cfg.DataDir = tb.TempDir()
	return cfg
}

func testLog(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func client(tb testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// Find a restarted broker soon.
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)
	c := must.Get(kgo.NewClient(opts...))(tb)
	tb.Cleanup(c.Close)
	return c
}

func createTopics(tb testing.TB, addr string, partitions int32, configs map[string]*string, topics ...string) {
	tb.Helper()
	createTopicsBy(tb, client(tb, addr), partitions, configs, topics...)
}

func createTopicsBy(tb testing.TB, cl *kgo.Client, partitions int32, configs map[string]*string, topics ...string) {
	tb.Helper()
	adm := kadm.NewClient(cl)
	resp := must.Get(adm.CreateTopics(tb.Context(), partitions, 1, configs, topics...))(tb)
	must.Do(tb, resp.Error())
}

// fixedAddr returns a loopback address that stays the same when a broker restarts.
func fixedAddr(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", kit.FreePort(tb))
}

func endOf(tb testing.TB, cl *kgo.Client, topic string, partition int32) int64 {
	tb.Helper()
	ends := must.Get(kadm.NewClient(cl).ListEndOffsets(tb.Context(), topic))(tb)
	o, _ := ends.Lookup(topic, partition)
	return o.Offset
}

func dials(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err == nil
}
