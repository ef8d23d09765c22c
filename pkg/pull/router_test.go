package pull

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// memoryBus is a bus between routers of a process.
type memoryBus struct {
	mu     sync.Mutex
	nodes  []*listener
	passed [][]byte
}

type listener struct {
	channels func() []string
	handle   func(string, []byte)
}

func (b *memoryBus) Publish(_ context.Context, channel string, message []byte) (listeners int64, err error) {
	b.mu.Lock()
	b.passed = append(b.passed, message)
	nodes := slices.Clone(b.nodes)
	b.mu.Unlock()
	for _, n := range nodes {
		if slices.Contains(n.channels(), channel) {
			n.handle(channel, message)
			listeners++
		}
	}
	return listeners, nil
}

func (b *memoryBus) Listen(
	ctx context.Context, channels func() []string, _ <-chan struct{}, handle func(string, []byte),
) {
	b.mu.Lock()
	b.nodes = append(b.nodes, &listener{channels, handle})
	b.mu.Unlock()
	<-ctx.Done()
}

// owner answers with what it is told.
type owner struct {
	events    []Event
	from      time.Time // when it has the events
	err       error
	cancelled chan struct{}
	asked     []Request
	back      []id.ID
	state     State      // of all acknowledgements
	mu        sync.Mutex // guards asked
	also      bool       // it takes itself for the owner of partition 1
}

func (o *owner) note(r Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, r)
}

func (o *owner) Pull(ctx context.Context, r Request) ([]Event, error) {
	o.note(r)
	if o.events == nil && o.err == nil || time.Now().Before(o.from) {
		select {
		case <-ctx.Done():
			close(o.cancelled)
			return nil, ctx.Err()
		case <-time.After(r.Wait):
			return nil, nil
		}
	}
	return o.events, o.err
}

func (o *owner) Acknowledge(_ context.Context, r Request) ([]State, error) {
	o.note(r)
	states := make([]State, len(r.Attempts))
	for i := range states {
		if o.state != "" {
			states[i] = o.state
			continue
		}
		states[i] = State(r.Attempts[i].Text("on " + r.Destination + " "))
	}
	return states, nil
}

func (o *owner) Consumers(string) []Consumer {
	return []Consumer{{Name: "w", LastPull: time.Unix(int64(len(o.asked)), 0)}}
}

func (o *owner) TakeBack(r Request) { o.back = append(o.back, r.Attempts...) }

// routers runs routers of nodes, each with the partition of its number.
func routers(t *testing.T, bus Bus, owners ...*owner) (all []*Router) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); running.Wait() })
	for i, o := range owners {
		r := NewRouter(RouterDeps{Local: o, Owned: func() []int32 {
			if o.also {
				return []int32{int32(i), 1}
			}
			return []int32{int32(i)}
		}, Bus: bus,
			Key: func(context.Context) ([32]byte, error) { return [32]byte{1}, nil }})
		running.Go(func() { _ = r.Run(ctx) })
		all = append(all, r)
	}
	synctest.Wait()
	return all
}

func attemptOf(t *testing.T, partition int32) id.ID {
	return must.Get(id.NewGenerator(nil).New(partition))(t)
}

// A request is answered by the owner of the partition, whichever node gets it. The bus sees no payload.
func TestRouterAsksTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &memoryBus{}
		a, b := &owner{}, &owner{events: []Event{{ID: attemptOf(t, 1), Body: []byte("the payload")}}}
		nodes := routers(t, bus, a, b)
		for _, node := range nodes {
			got := must.Get(node.Pull(t.Context(), []int32{1}, Request{Destination: "dst_1", Max: 3}))(t)
			if len(got) != 1 || string(got[0].Body) != "the payload" || got[0].ID != b.events[0].ID {
				t.Errorf("pulled %+v", got)
			}
		}
		if len(b.asked) != 2 || b.asked[0].Max != 3 || len(a.asked) != 0 {
			t.Errorf("asked %+v and %+v", a.asked, b.asked)
		}
		if slices.ContainsFunc(bus.passed, func(m []byte) bool { return bytes.Contains(m, []byte("dst_1")) }) {
			t.Error("the bus can read what it carries")
		}
		attempts := []id.ID{attemptOf(t, 1), attemptOf(t, 0), attemptOf(t, 1)}
		states := must.Get(nodes[0].Acknowledge(t.Context(), Request{Destination: "dst_1", Attempts: attempts}))(t)
		for i, attempt := range attempts {
			is.Equal(t, states[i], State(attempt.Text("on dst_1 ")), "the state of attempt %d is", i)
		}
		is.Equal(t, len(a.asked[0].Attempts), 1, "the owner of one attempt was asked for")
		consumers := must.Get(nodes[0].Consumers(t.Context(), []int32{0, 1}, "dst_1"))(t)
		if len(consumers) != 1 || !consumers[0].LastPull.Equal(time.Unix(3, 0)) {
			t.Errorf("consumers %+v", consumers)
		}
		b.events, b.err = nil, ErrBusy
		if _, err := nodes[0].Pull(t.Context(), []int32{1}, Request{}); !errors.Is(err, ErrBusy) {
			t.Errorf("the refusal of the other node is %v", err)
		}
	})
}

// While a partition goes to another node both take themselves for its owner. A lease that one of them has is not
// unknown.
func TestRouterAsksTheEarlierOwner(t *testing.T) {
	for _, known := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			owners := []*owner{{also: true, state: Unknown}, {state: Unknown}, {also: true, state: Unknown}}
			owners[known].state = Acknowledged
			for i, node := range routers(t, &memoryBus{}, owners...) {
				r := Request{Destination: "d", Attempts: []id.ID{attemptOf(t, 1)}}
				states := must.Get(node.Acknowledge(t.Context(), r))(t)
				is.Equal(t, states[0], Acknowledged, "asked %d, known to %d", i, known)
			}
		})
	}
}

// An endpoint that was moved has events in several partitions: they are asked in turn, until one has some.
func TestRouterAsksAllPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		nodes := routers(t, &memoryBus{}, &owner{}, &owner{events: []Event{{}}, from: began.Add(7 * time.Second)})
		got := must.Get(nodes[0].Pull(t.Context(), []int32{0, 1}, Request{Wait: 20 * time.Second}))(t)
		if took := time.Since(began); len(got) != 1 || took > 10*time.Second {
			t.Errorf("%d events after %v", len(got), took)
		}
	})
}

// A client that leaves ends its pull at the other node. Who cannot be asked is said to be unavailable, after a while.
func TestRouterCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &owner{cancelled: make(chan struct{})}
		nodes := routers(t, &memoryBus{}, &owner{}, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := nodes[0].Pull(ctx, []int32{1}, Request{Wait: 30 * time.Second}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("cancelled with %v", err)
		}
		<-b.cancelled
		began := time.Now()
		if _, err := nodes[0].Acknowledge(t.Context(), Request{Attempts: []id.ID{attemptOf(t, 7)}}); !errors.Is(err,
			ErrUnavailable) || time.Since(began) != answerTime {
			t.Errorf("without an owner %v after %v", err, time.Since(began))
		}
		alone := NewRouter(RouterDeps{})
		if _, err := alone.Pull(t.Context(), []int32{0}, Request{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a bus: %v", err)
		}
	})
}

// Events of an answer that nobody waits for are given back at once: of a request that was recorded and sent again, and
// of one whose node is gone.
func TestRouterGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, event := &memoryBus{}, attemptOf(t, 1)
		own := &owner{events: []Event{{Attempt: event}}}
		nodes := routers(t, bus, &owner{}, own)
		must.Get(nodes[0].Pull(t.Context(), []int32{1}, Request{Destination: "d"}))(t)
		request := bus.passed[0]
		must.Equal(t, len(own.back), 0, "a pull gave back %v", own.back)
		for i, gone := range []bool{false, true} {
			if gone {
				bus.nodes = slices.DeleteFunc(bus.nodes, func(l *listener) bool { return l.channels()[0] == nodes[0].self })
			}
			must.Get(bus.Publish(t.Context(), channelOf(1), request))(t)
			if synctest.Wait(); len(own.back) != i+1 || own.back[i] != event {
				t.Errorf("asking node gone %v: given back %v", gone, own.back)
			}
		}
	})
}
