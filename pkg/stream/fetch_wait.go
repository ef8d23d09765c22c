package stream

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchWait makes the fetches of an idle group wait longer at the broker. A broker answers a waiting fetch as soon as
// one of its partitions has a record, but nothing adds a partition to it: one that is resumed, or whose offset becomes
// known later, is not read before the fetch has ended. So a fetch waits for GroupConfig.MaxWait, unless it names every
// partition of the group: then nothing can be missing, and it waits for Config.QuietFetchWait.
//
// The client has one wait for all of its fetches, so fetchWait changes it in the request, on the way to the broker. A
// fetch that goes to one of several brokers never names every partition and keeps its wait.
type fetchWait struct {
	long  time.Duration
	owned atomic.Int64 // partitions of the assignment
	named atomic.Int64 // partitions in the fetch that the client encodes: it writes it before it encodes the next one
}

// setNamed is called with the partitions of a fetch when the client encodes it.
func (w *fetchWait) setNamed(partitions map[string][]int32) {
	w.named.Store(countPartitions(partitions))
}

// addOwned changes the number of partitions of the assignment.
func (w *fetchWait) addOwned(partitions map[string][]int32, sign int64) {
	w.owned.Add(sign * countPartitions(partitions))
}

func countPartitions(byTopic map[string][]int32) (n int64) {
	for _, ps := range byTopic {
		n += int64(len(ps))
	}
	return n
}

// namesAll reports whether the fetch that the client is about to write names every partition of the group.
func (w *fetchWait) namesAll() bool { return w.named.Load() > 0 && w.named.Load() == w.owned.Load() }

// dialFunc is Config.DialFunc.
type dialFunc func(ctx context.Context, network, host string) (net.Conn, error)

// dial returns a dialer whose connections change the wait of fetches.
func (w *fetchWait) dial(next dialFunc) dialFunc {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := next(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &fetchWaitConn{conn, w}, nil
	}
}

// fetchWaitConn is a client's connection to a broker. The client writes each request with one call of Write.
type fetchWaitConn struct {
	net.Conn
	wait *fetchWait
}

func (c *fetchWaitConn) Write(request []byte) (int, error) {
	if c.wait.namesAll() {
		if at, ok := maxWaitOffset(request); ok {
			request = slices.Clone(request) // it belongs to the caller
			binary.BigEndian.PutUint32(request[at:], uint32(c.wait.long.Milliseconds()))
		}
	}
	return c.Conn.Write(request)
}

// maxWaitOffset returns where a fetch request, with its length in front, has max_wait_ms; false for other requests.
func maxWaitOffset(request []byte) (at int, ok bool) {
	const header = 12                  // length, key, version, correlation id
	const flexible, noReplica = 12, 15 // first versions of the request with tags, and without replica_id
	if len(request) < header || kmsg.Key(binary.BigEndian.Uint16(request[4:])) != kmsg.Fetch ||
		int(binary.BigEndian.Uint32(request)) != len(request)-4 {
		return 0, false
	}
	version := binary.BigEndian.Uint16(request[6:])
	r := kbin.Reader{Src: request[header:]}
	r.NullableString() // client id
	if version >= flexible {
		for tags := r.Uvarint(); tags > 0 && r.Ok(); tags-- {
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
	}
	if version < noReplica {
		r.Int32()
	}
	return len(request) - len(r.Src), r.Ok() && len(r.Src) >= 4
}
