package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	stripewebhook "github.com/stripe/stripe-go/v82/webhook"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// A record that is taken again makes no second event, on whatever node; one that was not stored is stored then.
func TestTakenRecords(t *testing.T) {
	redis := miniredis.RunT(t)
	typed := func(_ *world, ep *config.Endpoint) { source := "body:$.type"; ep.TypeSource = &source }
	w := newWorld(t, options{redis: redis.Addr(), endpoint: typed})
	other := w.second(options{redis: redis.Addr(), endpoint: typed})
	record := func(key string) Record {
		return Record{Key: key, Body: []byte(`{"type":"order.paid"}`), Header: []event.Field{{Name: "X-Shop", Value: "7"}}}
	}
	f := func(w *world, want int, wantErr error, keys ...string) {
		t.Helper()
		var records []Record
		for _, key := range keys {
			records = append(records, record(key))
		}
		n, err := w.ingest.Take(t.Context(), w.EndpointByToken(token), records)
		if n != want || !errors.Is(err, wantErr) {
			t.Errorf("%d stored, %v", n, err)
		}
	}
	f(w, 2, nil, "a", "b")
	f(other, 1, nil, "a", "b", "c")
	w.capacityErr = stream.ErrBufferFull
	f(w, 0, stream.ErrBufferFull, "d")
	w.capacityErr = nil
	f(other, 1, nil, "d")
	w.ingest.claimWait = 50 * time.Millisecond // another node has begun to store e
	w.ingest.deps.Claims.Claim(t.Context(), "source\x00ep_1\x00e", must.Get(w.ingest.deps.IDs.New(0))(t), "")
	f(w, 0, ErrPending, "e", "f")
	f(w, 1, nil, "f")
	w.change(func(ep *config.Endpoint) { ep.Destinations = nil })
	f(w, 1, nil, "g")
	events := w.stored()
	if len(events) != 6 || events[0].Type != "order.paid" || len(events[0].Dests) != 2 ||
		events[0].Verdict != event.VerdictUnverified || events[5].Reason != event.NoDestination {
		t.Errorf("%d events: %+v", len(events), events[0])
	}
}

// lateStore cannot mark a key as stored once.
type lateStore struct {
	claim.Store
	failed atomic.Bool
}

func (s *lateStore) MarkStored(ctx context.Context, key string, e id.ID, note string, window time.Duration) error {
	if !s.failed.Swap(true) {
		return context.DeadlineExceeded
	}
	return s.Store.MarkStored(ctx, key, e, note, window)
}

// An event that arrived is not fetched; one that was fetched is a duplicate when it arrives, also after the window of
// the endpoint's deduplication. A rejected request does not count as arrived. Without Redis, which knows what has
// arrived, nothing is fetched.
func TestFetchedEvents(t *testing.T) {
	redis := miniredis.RunT(t)
	w := newWorld(t, options{redis: redis.Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		ep.Provider, ep.Dedup = "stripe", &config.Dedup{Key: "body:$.id", WindowSeconds: 60}
		ep.Reconcile, ep.Verification = &kinds.Reconcile{}, w.verification("stripe", "whsec_x")
	}})
	arrive := func(id string, good bool) {
		t.Helper()
		signed := stripewebhook.GenerateTestSignedPayload(&stripewebhook.UnsignedPayload{
			Payload: []byte(`{"id":"` + id + `"}`), Secret: map[bool]string{true: "whsec_x", false: "whsec_y"}[good],
			Timestamp: time.Now()})
		w.post(string(signed.Payload), "Stripe-Signature", signed.Header)
	}
	fetch := func(want int, ids ...string) {
		t.Helper()
		var records []Record
		for _, id := range ids {
			records = append(records, Record{Key: id, Body: []byte(`{"id":"` + id + `","type":"invoice.paid"}`)})
		}
		if n, err := w.ingest.TakeFetched(t.Context(), w.EndpointByToken(token), records); n != want || err != nil {
			t.Errorf("%d of %v stored: %v", n, ids, err)
		}
	}
	arrive("evt_1", true)
	arrive("evt_2", false)
	w.ingest.claims.Store = &lateStore{Store: w.ingest.claims.Store}
	fetch(2, "evt_1", "evt_2", "evt_3", "evt_3")
	redis.FastForward(29 * 24 * time.Hour)
	fetch(0, "evt_1", "evt_2", "evt_3")
	arrive("evt_3", true)
	events := w.stored()
	last := events[len(events)-1]
	if e := events[2]; e.Source != event.SourceReconcile || e.Verdict != event.VerdictVerified || e.Proof() != "verified" {
		t.Errorf("fetched: %+v", e)
	}
	if last.Reason != event.Duplicate || last.DuplicateOf == "" {
		t.Errorf("arrived later: %+v", last)
	}
	redis.Close()
	n, err := w.ingest.TakeFetched(t.Context(), w.EndpointByToken(token), []Record{{Key: "evt_4", Body: []byte(`{}`)}})
	if n != 0 || !errors.Is(err, errUnknown) {
		t.Errorf("without Redis %d are stored: %v", n, err)
	}
}
