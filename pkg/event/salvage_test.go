package event_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// A record that cannot be decoded still names its deliveries, so that they end as failed and not as pending for ever.
func TestSalvage(t *testing.T) {
	e := sample(t)
	f := func(name string, ok bool, want event.Salvaged, spoil func(*stream.Record)) {
		t.Helper()
		r := e.Record()
		spoil(r)
		got, found := event.Salvage(r)
		is.Equal(t, found, ok, "%s: %+v", name, got)
		if d := cmp.Diff(want, got); ok && d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	header := func(r *stream.Record, key, value string) {
		r.Headers = append(r.Headers, stream.Header{Key: key, Value: []byte(value)})
	}
	all := event.Salvaged{Event: e.ID, Account: "acc_1", Endpoint: "ep_1", Type: "order.paid", Dests: e.Dests}
	f("another version", true, all, func(r *stream.Record) { r.Headers[0].Value = []byte("2") })
	f("a second broken id", true, all, func(r *stream.Record) { header(r, "relay-id", "evt_nope") })
	f("a broken work item", true, all, func(r *stream.Record) { header(r, "relay-work", "{") })
	f("a work item without a destination", true, all, func(r *stream.Record) {
		header(r, "relay-work", `{"run":"run_1"}`)
	})
	one := all
	one.Run, one.Dests, one.FromWork = "run_1", []string{"dst_2"}, true
	f("a work item", true, one, func(r *stream.Record) { header(r, "relay-work", `{"v":2,"d":"dst_2","run":"run_1"}`) })
	f("a work item before the destinations", true, one, func(r *stream.Record) {
		header(r, "relay-work", `{"v":2,"d":"dst_2","run":"run_1"}`)
		header(r, "relay-dests", "dst_1,dst_2")
	})
	f("no key", false, all, func(r *stream.Record) { r.Key = nil })
	f("no id", false, all, func(r *stream.Record) { r.Headers[1].Key = "x" })
	f("no destinations", false, all, func(r *stream.Record) { r.Headers[10].Key = "x" })
}
