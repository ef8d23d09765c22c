package kafka

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
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
		must.Do(t, got.ReadFrom([]byte(rest)), "version %d", version)
		want := kmsg.NewPtrFetchRequest()
		want.Version = version
		if declined {
			req.SessionID, req.SessionEpoch = 0, -1
		}
		must.Do(t, want.ReadFrom(req.AppendTo(nil)))
		is.Equal(t, cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(kmsg.Tags{})), "",
			"version %d, client %.10q (-want +got)", version, client)
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
