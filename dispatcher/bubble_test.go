package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/stream"
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

// bubble runs a test with fake time on a Kafka, and unless tests are to be short also on the log in this process.
func bubble(t *testing.T, partitions int, f func(t *testing.T, w *bubbleWorld)) {
	t.Helper()
	if testing.Short() {
		kafkaBubble(t, partitions, f)
		return
	}
	t.Run("kafka", func(t *testing.T) { kafkaBubble(t, partitions, f) })
	t.Run("log in this process", func(t *testing.T) {
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
