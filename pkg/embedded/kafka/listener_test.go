package kafka

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/test/must"
)

// Clients in this process and clients over TCP see one log, and answers to clients in this process wait for syncs too.
func TestDialInProcess(t *testing.T) {
	t.Parallel()
	s := serve(t, testConfig(t))
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	inside := client(t, s.Addr(), kgo.Dialer(s.DialContext), kgo.ConsumeTopics("relay.events"))
	outside := client(t, s.Addr(), kgo.ConsumeTopics("relay.events"))
	for i, from := range []*kgo.Client{inside, outside} {
		must.Do(t, from.ProduceSync(t.Context(), &kgo.Record{Topic: "relay.events", Value: []byte{byte(i)}}).
			FirstErr())
	}
	for name, to := range map[string]*kgo.Client{"inside": inside, "outside": outside} {
		for i, r := range consume(t, to, 2) {
			if len(r.Value) != 1 || r.Value[0] != byte(i) {
				t.Errorf("%s: record %d is %v", name, i, r.Value)
			}
		}
	}
	c := must.Get(s.DialContext(t.Context(), "tcp", s.Addr()))(t)
	defer c.Close()
	if network := c.RemoteAddr().Network(); network != "pipe" {
		t.Errorf("dialled through %s", network)
	}
	if _, err := s.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("another address was dialled in process")
	}
}

func TestListenerCloses(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := newDualListener(tcp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dial without Accept: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := e.Accept()
		waiting <- err
	}()
	// A connection that was not accepted yet does not delay Close.
	stray, err := net.DialTimeout("tcp", tcp.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	<-waiting
	second, err := net.DialTimeout("tcp", tcp.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after Close: %v", err)
	}
	for range 2 { // one connection may still be in flight
		if _, err = e.Accept(); err != nil {
			break
		}
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after Close: %v", err)
	}
}
