package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// bubbleWorld is a world on fake time (testing/synctest). The log, the dispatchers and the destinations use a network
// in memory, so hours of waiting take a moment.
type bubbleWorld struct {
	*world
	cluster *kfake.Cluster // nil: the log is in this process
	network *kfake.VirtualNetwork
	servers sync.WaitGroup
}

// bubble runs a test with fake time on the log in this process.
func bubble(t *testing.T, partitions int, f func(t *testing.T, w *bubbleWorld)) {
	t.Helper()
	bubbleOn(t, partitions, f, func(t *testing.T, _ *bubbleWorld) (stream.Config, func()) {
		log := must.Get(stream.OpenLog(stream.LogConfig{Dir: t.TempDir()}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- log.Run(ctx) }()
		return stream.Config{Embedded: log}, func() {
			cancel()
			must.Do(t, <-ended)
		}
	})
}

// kafkaBubble is bubble for tests that need a Kafka: they make its requests fail, or ask it.
func kafkaBubble(t *testing.T, partitions int, f func(t *testing.T, w *bubbleWorld)) {
	t.Helper()
	bubbleOn(t, partitions, f, func(t *testing.T, w *bubbleWorld) (stream.Config, func()) {
		w.cluster = must.Get(kfake.NewCluster(
			kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.network.Listen)))(t)
		return stream.Config{Brokers: w.cluster.ListenAddrs(), DialFunc: w.network.DialContext}, w.cluster.Close
	})
}

func bubbleOn(t *testing.T, partitions int, f func(t *testing.T, w *bubbleWorld),
	open func(*testing.T, *bubbleWorld) (stream.Config, func())) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		w := &bubbleWorld{network: new(kfake.VirtualNetwork)}
		transport := &http.Transport{DialContext: w.network.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64}
		conf, closeLog := open(t, w)
		defer func() {
			w.shut()
			transport.CloseIdleConnections()
			w.servers.Wait()
			closeLog()
		}()
		w.world = newWorldOn(t, conf, transport, partitions)
		w.patience = 24 * time.Hour
		f(t, w)
	})
}

// serve runs a destination until it is closed or the test ends.
func (w *bubbleWorld) serve(port int, h http.Handler) (url string, closeServer func()) {
	w.tb.Helper()
	l := must.Get(w.network.Listen("tcp", fmt.Sprintf("localhost:%d", port)))(w.tb)
	s := &http.Server{Handler: h}
	w.servers.Go(func() { s.Serve(l) })
	closeServer = sync.OnceFunc(func() { s.Close() })
	// Runs before the dispatchers stop, so that none waits for a hanging handler.
	w.close = append([]func(){closeServer}, w.close...)
	return fmt.Sprintf("http://localhost:%d/hook", port), closeServer
}

// tierTopics are the names of the retry topics.
func tierTopics() []string {
	var topics []string
	for _, t := range stream.Tiers() {
		topics = append(topics, t.Topic)
	}
	return topics
}

// When the clock is set forward, deliveries that become due are sent within seconds, however long the timer meant to
// sleep.
func TestClockSetForward(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig(), func(d *Deps) { d.Now, d.IDs = now, id.NewGenerator(now) })
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2,
			Due: time.Now().Add(29 * time.Minute)})
		time.Sleep(time.Minute)
		ahead.Store(int64(time.Hour))
		time.Sleep(maxSleep + time.Second)
		is.Equal(t, len(s.all()), 1, "requests after the clock has stepped over the due time")
	})
}

// A request that is cancelled because the node stops is no attempt: nothing is recorded, and the next owner delivers.
func TestRequestCancelledByAStopIsNoAttempt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		release := make(chan struct{})
		defer close(release)
		s := &sink{answer: func(n int, _ received) int {
			if n == 1 {
				<-release
			}
			return 200
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		cfg := testConfig()
		cfg.Drain = time.Second // shorter than the destination's timeout
		_, stop := w.start(cfg)
		w.accept(w.newEvent(`{}`))
		for len(s.all()) == 0 {
			time.Sleep(time.Millisecond)
		}
		stop()
		is.Equal(t, w.metric("relay_dispatch_attempts_total", ""), 0, "attempts are counted")
		w.start(cfg)
		if got := w.outcomes(count(1)); got[0].Status != event.Delivered || len(s.all()) != 2 {
			t.Errorf("after %d requests the first outcome is %+v", len(s.all()), got[0])
		}
	})
}

func TestMain(m *testing.M) { kit.Main(m) }

// Every test that the package comment names for an invariant exists, here or in a folder below.
func TestInvariantsNameTheirTests(t *testing.T) {
	doc := must.Get(os.ReadFile("dispatcher.go"))(t)
	var files []string
	for _, pattern := range []string{"*_test.go", "lane/*_test.go", "destination/webhook/*_test.go"} {
		found := must.Get(filepath.Glob(pattern))(t)
		files = append(files, found...)
	}
	var tests strings.Builder
	for _, f := range files {
		text := must.Get(os.ReadFile(f))(t)
		tests.Write(text)
	}
	head, _, _ := strings.Cut(string(doc), "\npackage ")
	names := regexp.MustCompile(`Test\w+`).FindAllString(head, -1)
	if len(names) < 13 {
		t.Errorf("the package comment names %d tests", len(names))
	}
	for _, name := range names {
		is.Has(t, tests.String(), "func "+name+"(", "%s does not exist", name)
	}
}
