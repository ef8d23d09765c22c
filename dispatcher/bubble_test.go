package dispatcher

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/stream"
)

// bubbleWorld is a world on fake time (testing/synctest). The log, the dispatchers and the destinations use a network
// in memory, so hours of waiting take a moment.
type bubbleWorld struct {
	*world
	cluster *kfake.Cluster
	network *kfake.VirtualNetwork
	servers sync.WaitGroup
}

func bubble(t *testing.T, partitions int, f func(t *testing.T, w *bubbleWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: network.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64}
		w := &bubbleWorld{cluster: cluster, network: &network}
		defer func() {
			w.shut()
			transport.CloseIdleConnections()
			w.servers.Wait()
			cluster.Close()
		}()
		w.world = newWorldOn(t, stream.Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext}, transport,
			partitions)
		w.patience = 24 * time.Hour
		f(t, w)
	})
}

// serve runs a destination until it is closed or the test ends.
func (w *bubbleWorld) serve(port int, h http.Handler) (url string, closeServer func()) {
	w.tb.Helper()
	l, err := w.network.Listen("tcp", fmt.Sprintf("localhost:%d", port))
	if err != nil {
		w.tb.Fatal(err)
	}
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
