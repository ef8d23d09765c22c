package conflog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// countedConn counts what is read from a connection.
type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// What nodes read to know each other, to wait at a barrier and to pass messages on does not grow with the square of
// their number: for twice the nodes it is about twice as much.
func TestNodesReadLittleOfEachOther(t *testing.T) {
	var read [2]int64
	for i, nodes := range []int{32, 64} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) { read[i] = bytesRead(t, nodes) })
	}
	t.Logf("32 nodes read %d bytes in 5 s, 64 read %d", read[0], read[1])
	if read[1] > 5*read[0]/2 {
		t.Errorf("32 nodes read %d bytes, 64 nodes %d", read[0], read[1])
	}
}

// bytesRead returns how much that many nodes read from the broker in five seconds with one change, which all have
// applied when the barrier ends, and with a message.
func bytesRead(t *testing.T, count int) (all5s int64) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var read, messages atomic.Int64
		dial := conf.DialFunc
		conf.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
			c, err := dial(ctx, network, host)
			return countedConn{c, &read}, err
		}
		var all []*testNode
		var starting sync.WaitGroup
		first := node(t, conf, Config{Node: "n0"})
		first.Messages.Handle(func([]byte) { messages.Add(1) })
		text, k := first.createKey(t)
		all = append(all, first)
		for i := range count - 1 {
			n := start(t, conf, Config{Node: fmt.Sprint("n", i+1)})
			starting.Go(func() { <-n.Ready() })
			n.Messages.Handle(func([]byte) { messages.Add(1) })
			all = append(all, n)
		}
		starting.Wait()
		time.Sleep(5 * time.Second)
		read.Store(0)
		began := time.Now()
		must.Do(t, first.revoke(t.Context(), k.ID))
		for _, n := range all {
			must.ErrorIs(t, n.authenticate(text), errRevoked, "after the barrier node %s answers", n.cfg.Node)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the barrier took %v", took)
		}
		must.Do(t, first.Messages.Send(t.Context(), []byte("x")))
		time.Sleep(5*time.Second - time.Since(began))
		for _, n := range all {
			if living := n.Nodes(); len(living) != count {
				t.Errorf("node %s knows %d nodes of %d", n.cfg.Node, len(living), count)
			}
		}
		if messages.Load() != int64(count-1) {
			t.Errorf("the message arrived at %d nodes of %d", messages.Load(), count-1)
		}
		all5s = read.Load()
	})
	return all5s
}

// When the level is raised, nodes stop to read each other's heartbeats at different times. Before, meanwhile and after
// it no node accepts a key whose revocation was answered, and nodes of the previous version find all heartbeats.
func TestRevocationsWhileTheLevelIsRaised(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		startOldLog(t, conf)
		var cold kit.Freezer
		a, b := pair(t, conf, freezable(&cold, conf))
		revoke := func(by, other *testNode) (took time.Duration) {
			t.Helper()
			text, k := by.createKey(t)
			must.Do(t, other.Sync(t.Context()))
			began := time.Now()
			must.Do(t, by.revoke(t.Context(), k.ID))
			if err := other.authenticate(text); !errors.Is(err, errRevoked) && !errors.Is(err, ErrLease) {
				t.Fatalf("after the answer node %s returns %v", other.cfg.Node, err)
			}
			return time.Since(began)
		}
		revoke(a, b)
		if d, _ := a.peers.newest(); a.usesDigests() || d.Herald != "" || len(a.Nodes()) != 2 {
			t.Fatalf("at level 1: digest %+v, nodes %+v", d, a.Nodes())
		}
		cold.Freeze(t) // node b does not learn of the level for now
		must.Get(finalize(t, conf))(t)
		must.Do(t, a.Sync(t.Context()))
		text, k := a.createKey(t)
		must.Do(t, a.revoke(t.Context(), k.ID))
		if err := b.authenticate(text); b.usesDigests() || !errors.Is(err, ErrLease) {
			t.Fatalf("frozen at level 1, node b returns %v", err)
		}
		cold.Thaw()
		must.Do(t, b.Sync(t.Context()))
		for range 10 {
			revoke(b, a)
			revoke(a, b)
		}
		time.Sleep(2 * time.Second)
		if took := max(revoke(a, b), revoke(b, a)); took > time.Second || len(a.Nodes()) != 2 || len(b.Nodes()) != 2 {
			t.Errorf("after it a revocation takes %v; nodes %+v", took, b.Nodes())
		}
	})
}

// A herald that hangs is replaced. It stays a living node, which barriers wait for, as long as its lease.
func TestHeraldIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		cold := make(map[string]*kit.Freezer)
		all := make(map[string]*testNode) // by boot id
		for _, name := range []string{"a", "b", "c"} {
			f := new(kit.Freezer)
			n := node(t, freezable(f, conf), Config{Node: name})
			all[n.bootID], cold[n.bootID] = n, f
		}
		time.Sleep(3 * time.Second)
		heralds := make(map[string]bool)
		for _, n := range all {
			d, at := n.peers.newest()
			if heralds[d.Herald] = true; time.Since(at) > time.Second || len(n.Nodes()) != 3 {
				t.Fatalf("node %s has a digest of %v ago and nodes %+v", n.cfg.Node, time.Since(at), n.Nodes())
			}
		}
		must.Equal(t, len(heralds), 1, "heralds %v", heralds)
		for frozen := range heralds {
			cold[frozen].Freeze(t)
			var others []*testNode
			for boot, n := range all {
				if boot != frozen {
					others = append(others, n)
				}
			}
			text, k := others[0].createKey(t)
			must.Do(t, others[0].revoke(t.Context(), k.ID))
			is.ErrorIs(t, all[frozen].authenticate(text), ErrLease, "the frozen node returns")
			time.Sleep(8 * time.Second)
			began := time.Now()
			_, k = others[1].createKey(t)
			must.Do(t, others[1].revoke(t.Context(), k.ID))
			if took := time.Since(began); took > time.Second || len(others[0].Nodes()) != 2 {
				t.Errorf("with a new herald: %v, nodes %+v", took, others[0].Nodes())
			}
			cold[frozen].Thaw()
			time.Sleep(3 * time.Second)
			if n := all[frozen]; len(n.Nodes()) != 3 {
				t.Errorf("thawed, the node knows %+v", n.Nodes())
			}
		}
	})
}
