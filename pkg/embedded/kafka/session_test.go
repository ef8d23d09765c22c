package kafka

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/must"
)

// Fetch requests of all versions, as the client writes them, lose their session and nothing else.
func TestDeclineSession(t *testing.T) {
	f := func(version int16, client, tags string, peek int, declined bool) {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = version, 5000, 1, 1<<20, 1
		req.SessionID, req.SessionEpoch = 77, 5
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		topic.Topic, topic.TopicID = "relay.events", [16]byte{1, 2}
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = 9, 1<<20, 3
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, 42)
		// Only the part that declineSession may read: a write behind it is out of bounds.
		body := bytes.Clone(frame[headerLen:])
		if tags != "" {
			i := 2 + len(client)
			body = slices.Concat(body[:i], []byte(tags), body[i+1:])
		}
		declineSession(version, body[:min(peek, len(body)):min(peek, len(body))])
		_, rest, found := strings.Cut(string(body), client)
		if !found {
			t.Fatalf("version %d: the client id is gone", version)
		}
		if req.IsFlexible() {
			rest = rest[max(len(tags), 1):]
		}
		got := kmsg.NewPtrFetchRequest()
		got.Version = version
		if err := got.ReadFrom([]byte(rest)); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		want := kmsg.NewPtrFetchRequest()
		want.Version = version
		if declined {
			req.SessionID, req.SessionEpoch = 0, -1
		}
		must.Do(t, want.ReadFrom(req.AppendTo(nil)))
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(kmsg.Tags{})); d != "" {
			t.Errorf("version %d, client %.10q (-want +got):\n%s", version, client, d)
		}
	}
	for version := range kmsg.NewPtrFetchRequest().MaxVersion() + 1 {
		f(version, "relay", "", fetchPeekBytes, version >= 7)
	}
	f(13, "relay", "\x02\x09\x03abc\x0a\x00", fetchPeekBytes, true)
	f(13, "relay", "\x01\x09\x7f"+strings.Repeat("x", 127), 50, false)
	f(13, strings.Repeat("x", 200), "", fetchPeekBytes, true)
	f(13, strings.Repeat("x", 300), "", fetchPeekBytes, false)
	f(13, "relay", "", 10, false)
}

// A broker keeps no memory of closed connections, whether they asked for a fetch session or not.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	s := serve(t, testConfig(t))
	const clients, each = 40, 1 << 20
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	for range clients {
		cl := must.Get(kgo.NewClient(kgo.SeedBrokers(s.Addr())))(t)
		req := kmsg.NewPtrFetchRequest()
		req.Rack = strings.Repeat("x", each)
		must.Get(req.RequestWith(t.Context(), cl))(t)
		cl.Close()
	}
	var grown int64
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if grown = int64(inUse()) - int64(before); grown < clients*each/4 {
			return
		}
	}
	t.Errorf("%d MB more are in use after %d fetches of a megabyte", grown>>20, clients)
}
