package dispatcher

import (
	"net/http/httptest"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// A destination of another kind than a webhook is delivered to in the same way, beside one. What its kind says is final
// is not retried.
func TestDeliverToKafka(t *testing.T) {
	customer := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")))(t)
	defer customer.Close()
	w := newWorld(t, 1)
	s := &sink{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	endpoint := w.endpoint(srv.URL, srv.URL)
	settings := kinds.Settings{Kafka: &kinds.Kafka{Brokers: customer.ListenAddrs(), Topic: "orders", Plaintext: true,
		MaxRecord: 2000}}
	settings.Trim()
	dest := &endpoint.Destinations[1]
	dest.Settings = settings
	_, dest.URL = settings.Kind()
	w.view.put(endpoint)
	w.start(testConfig())
	w.accept(w.newEvent(`{}`, "dst_1", "dst_2"), w.newEvent(string(make([]byte, 3000)), "dst_1", "dst_2"))
	outcomes := w.outcomes(func(all []*event.Outcome) bool { return len(all) == 4 })
	got := of(outcomes, dest.ID)
	if len(got) != 2 || len(s.all()) != 2 {
		t.Fatalf("%d outcomes, %d requests", len(got), len(s.all()))
	}
	for _, outcome := range got {
		switch a := outcome.Attempt; {
		case outcome.Status == event.Delivered && a.OK && a.URL == dest.URL && a.Method == "PRODUCE":
		case outcome.Status == event.Failed && outcome.Reason == event.TooLarge && a.ErrorCode == event.CodeTooLarge:
		default:
			t.Errorf("%s %s: %+v", outcome.Status, outcome.Reason, a)
		}
	}
}
