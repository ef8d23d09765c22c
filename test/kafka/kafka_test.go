package kafka

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// An acknowledgement of a durable topic waits for the sync of its own partition's file. Meanwhile the record can be
// read, and other topics are acknowledged.
func TestAckWaitsForSync(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DataDir = t.TempDir()
	s := must.Get(New(cfg, Deps{}))(t)
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	s.disk.syncFile = func(path string) error {
		if filepath.Base(filepath.Dir(path)) == "relay.events-0" {
			entered <- struct{}{}
			<-hold
		}
		return fdatasync(path)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { must.Do(t, s.Run(ctx)) })
	defer running.Wait()
	defer cancel()
	<-s.Ready()
	client := func(opts ...kgo.Opt) *kgo.Client {
		return must.Get(kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addr()))...))(t)
	}
	cl, other := client(kgo.ConsumeTopics("relay.events")), client() // a connection answers in order
	defer cl.Close()
	defer other.Close()
	must.Do(t, must.Get(kadm.NewClient(cl).CreateTopics(ctx, 1, 1, nil, "relay.events", "relay.retry.1s"))(t).Error())

	acked := make(chan error, 1)
	cl.Produce(ctx, &kgo.Record{Topic: "relay.events", Value: []byte("held")},
		func(_ *kgo.Record, err error) { acked <- err })
	if got := cl.PollFetches(ctx).Records(); len(got) != 1 || string(got[0].Value) != "held" {
		t.Fatalf("consumed %v", got)
	}
	<-entered
	must.Do(t, other.ProduceSync(ctx, &kgo.Record{Topic: "relay.retry.1s", Value: []byte("lazy")}).FirstErr())
	select {
	case err := <-acked:
		t.Fatalf("acknowledged (%v) before the sync returned", err)
	default:
	}
	close(hold)
	must.Do(t, <-acked)
}
