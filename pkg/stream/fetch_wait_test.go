package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/must"
)

// The wait is changed in fetch requests of all versions, as the client writes them, and in nothing else.
func TestFetchWaitIsChangedInTheRequest(t *testing.T) {
	t.Parallel()
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("relay-dispatch"))
	for version := range int16(19) {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 100, 1, 1<<20
		want := f.AppendRequest(nil, req, 42)
		req.MaxWaitMillis = 5000
		changed := f.AppendRequest(nil, req, 42)
		var written bytes.Buffer
		w := &fetchWait{long: 5 * time.Second}
		c := &fetchWaitConn{bufferConn{to: &written}, w}
		for _, step := range []struct {
			named, owned int64
			want         []byte
		}{{0, 0, want}, {3, 4, want}, {4, 4, changed}} {
			w.named.Store(step.named)
			w.owned.Store(step.owned)
			written.Reset()
			request := bytes.Clone(want)
			if _, err := c.Write(request); err != nil || !bytes.Equal(written.Bytes(), step.want) {
				t.Errorf("version %d, %d of %d partitions: wrote %x (%v), want %x", version, step.named, step.owned,
					written.Bytes(), err, step.want)
			}
			if !bytes.Equal(request, want) {
				t.Errorf("version %d: the caller's bytes have changed", version)
			}
		}
		for n := range len(want) { // a part of a request
			if at, ok := maxWaitOffset(want[:n]); ok {
				t.Errorf("version %d: %d bytes have a wait at %d", version, n, at)
			}
			cut := bytes.Clone(want[:n])
			if n >= 4 {
				binary.BigEndian.PutUint32(cut, uint32(n-4))
			}
			if at, ok := maxWaitOffset(cut); ok && at+4 > n {
				t.Errorf("version %d: the wait of %d bytes is at %d", version, n, at)
			}
		}
	}
	other := f.AppendRequest(nil, kmsg.NewPtrHeartbeatRequest(), 42)
	if _, ok := maxWaitOffset(other); ok {
		t.Error("a heartbeat has a wait")
	}
}

// bufferConn writes to a buffer.
type bufferConn struct {
	net.Conn
	to *bytes.Buffer
}

func (c bufferConn) Write(b []byte) (int, error) { return c.to.Write(b) }

// fetchWaits counts the fetches of a cluster by whether they wait for long, and by how many partitions they name.
type fetchWaits struct {
	mu     sync.Mutex
	counts map[fetchKind]int
	more   chan struct{} // capacity 1
}

type fetchKind struct {
	long       bool
	partitions int
}

func (f *fetchWaits) watch(cluster *kfake.Cluster) {
	f.counts, f.more = map[fetchKind]int{}, make(chan struct{}, 1)
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		// No sessions, as the embedded broker has none: each fetch names its partitions.
		req.SessionID, req.SessionEpoch = 0, -1
		n := 0
		for _, topic := range req.Topics {
			n += len(topic.Partitions)
		}
		f.mu.Lock()
		f.counts[fetchKind{req.MaxWaitMillis > 1000, n}]++
		f.mu.Unlock()
		select {
		case f.more <- struct{}{}:
		default:
		}
		return nil, nil, false
	})
}

// await waits for another fetch of this kind.
func (f *fetchWaits) await(t *testing.T, kind fetchKind) {
	t.Helper()
	f.mu.Lock()
	before := f.counts[kind]
	f.mu.Unlock()
	f.awaitMore(t, kind, before)
}

func (f *fetchWaits) awaitMore(t *testing.T, kind fetchKind, before int) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		f.mu.Lock()
		n := f.counts[kind]
		f.mu.Unlock()
		if n > before {
			return
		}
		select {
		case <-f.more:
		case <-limit:
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Fatalf("no fetch %+v; there were %v", kind, f.counts)
		}
	}
}

// While nothing is paused, fetches of a group wait for an hour, and records end the wait at once. While a partition is
// paused, fetches are short, so that it is read soon after it is resumed.
func TestQuietGroupWaitsLongAndReadsAtOnce(t *testing.T) {
	t.Parallel()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 4, 1))(t)
	p := must.Get(NewProducer(c, "test"))(t)
	t.Cleanup(p.Close)
	var seen fetchWaits
	seen.watch(cluster)
	c.DialFunc, c.QuietFetchWait = new(net.Dialer).DialContext, time.Hour
	const topic, all = "retry.1s", 8
	g := must.Get(NewGroup(c, GroupConfig{
		Name: "g", Topics: []string{Events, topic}, DelayTolerant: []string{topic}, MaxWait: 10 * time.Millisecond}))(t)
	closed := make(chan struct{})
	t.Cleanup(func() { <-closed })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	got := make(chan Partition)
	go func() {
		defer close(closed)
		for g.Poll(ctx, func(from Partition, _ []*Record) { got <- from }) == nil {
		}
	}()
	send := func(to Partition) {
		t.Helper()
		must.Do(t, p.ProduceSync(ctx, to.Topic, to.Index, &Record{Value: []byte("x")}))
	}
	read := func(want Partition) {
		t.Helper()
		select {
		case from := <-got:
			if from != want {
				t.Fatalf("read %v, want %v", from, want)
			}
		case <-ctx.Done():
			t.Fatalf("%v was not read", want)
		}
	}
	long, one := fetchKind{true, all}, Partition{topic, 1}
	seen.awaitMore(t, long, 0)
	for i := range int32(4) { // each ends the wait of a fetch
		send(Partition{Events, i})
		read(Partition{Events, i})
	}
	send(one)
	read(one)
	seen.awaitMore(t, long, 0)
	g.Pause(one)
	send(Partition{Events, 0}) // ends the fetch that names the paused partition
	read(Partition{Events, 0})
	seen.await(t, fetchKind{false, all - 1})
	send(one)
	seen.await(t, fetchKind{false, all - 1})
	g.Resume(one)
	read(one)
	stop()
	<-closed
	g.Close() // does not wait for the fetch
}

// A wait that only a broker in the same process may have is refused without one.
func TestQuietFetchWaitNeedsDialFunc(t *testing.T) {
	c := Config{Brokers: []string{"127.0.0.1:1"}, QuietFetchWait: time.Second}
	if c.Validate() == nil {
		t.Error("accepted")
	}
	c.DialFunc = new(net.Dialer).DialContext
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
