package event_test

import (
	"net/http"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// A receipt that can be read can be written and read again.
func FuzzDecodeReceipt(f *testing.F) {
	r := &event.Receipt{Event: newID(f), Endpoint: "ep_1", State: event.ProcessingDone, Details: "{}"}
	f.Add(r.Endpoint, r.Record().Value)
	f.Add("ep_1", []byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, endpoint string, value []byte) {
		r, err := event.DecodeReceipt(&stream.Record{Key: []byte(endpoint), Value: value})
		if err != nil {
			return
		}
		if again, err := event.DecodeReceipt(r.Record()); err != nil || again.Event != r.Event || again.State != r.State {
			t.Fatalf("%v: %+v", err, r)
		}
	})
}

// The places of an event's type and of its deduplication value are found in any body without a panic, and only where
// they say.
func FuzzSources(f *testing.F) {
	f.Add("body:$.a.b|header:X-Type|const:x", "body:$.id", []byte(`{"a":{"b":"c"},"id":1e400}`))
	f.Add("body:$.a[0]", "header:X-Id", []byte(`[{"a":["\ud800"]}]`))
	f.Fuzz(func(t *testing.T, source, dedup string, body []byte) {
		if s, err := event.ParseTypeSource(source); err == nil {
			s.Of(http.Header{"X-Type": {"y"}}, body)
		}
		if k, err := event.ParseDedupKey(dedup); err == nil {
			if value, ok := k.Of(http.Header{}, body); ok && (value == "" || len(value) > 2*len(body)) {
				t.Fatalf("%q of %q is %q", dedup, body, value)
			}
		}
	})
}
