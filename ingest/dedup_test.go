package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// deduplicated sets the deduplication key of the endpoint.
func deduplicated(key string) func(*world, *config.Endpoint) {
	return func(_ *world, ep *config.Endpoint) { ep.Dedup = &config.Dedup{Key: key, WindowSeconds: 3600} }
}

// wantDuplicates checks, for each stored event in order, the index of the event that it is a duplicate of; -1 for none.
func (w *world) wantDuplicates(want ...int) {
	w.tb.Helper()
	events := w.stored()
	must.Equal(w.tb, len(events), len(want), "events are stored")
	for i, e := range events {
		of, reason, dests := "", event.Reason(""), []string{"dst_1", "dst_3"}
		if want[i] >= 0 {
			of, reason, dests = events[want[i]].ID.Text(id.Event), event.Duplicate, nil
		}
		if e.DuplicateOf != of || e.Reason != reason || !slices.Equal(e.Dests, dests) {
			w.tb.Errorf("event %d repeats %q (%s, to %v), want %q", i, e.DuplicateOf, e.Reason, e.Dests, of)
		}
	}
}

func (w *world) dedups(result string) float64 {
	return w.metric(w.ingest.metrics.dedup.WithLabelValues(result))
}

// githubSignature signs as GitHub does.
func githubSignature(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestDeduplication(t *testing.T) {
	redis := miniredis.RunT(t)
	w := newWorld(t, options{redis: redis.Addr(), endpoint: deduplicated("body:$.id")})
	first := w.want(w.post(`{"id":"a","n":1}`), 200)
	again := w.want(w.post(`{"id":"a","n":2}`), 200)
	if again.body != first.body || again.Header.Get("Content-Type") != first.Header.Get("Content-Type") ||
		again.Header.Get("Relay-Event-Id") == first.Header.Get("Relay-Event-Id") {
		t.Errorf("a duplicate is answered %v %s", again.Header, again.body)
	}
	w.want(w.post(`{"id":"b"}`), 200)
	w.want(w.post(`{"n":1}`), 200) // without a deduplication key both are new
	w.want(w.post(`{"n":1}`), 200)
	w.want(w.post(`{"id":"b"}`), 200)
	w.want(w.post(`{"id":"`+strings.Repeat("x", 1<<19)+`"}`), 200)
	w.want(w.post(`{"id":"`+strings.Repeat("x", 1<<19)+`"}`), 200)
	w.wantDuplicates(-1, 0, -1, -1, -1, 2, -1, 6)
	if w.dedups("new") != 3 || w.dedups("duplicate") != 3 {
		t.Errorf("counted %v new, %v duplicates", w.dedups("new"), w.dedups("duplicate"))
	}
	// Another source of the key and another endpoint are separate.
	w.change(func(ep *config.Endpoint) { ep.Dedup = &config.Dedup{Key: "header:X-Id", WindowSeconds: 60} })
	w.want(w.post(`{}`, "X-Id", "a"), 200)
	w.want(w.post(`{}`, "X-Id", "a"), 200)
	w.change(func(ep *config.Endpoint) { ep.ID = "ep_2" })
	w.want(w.post(`{}`, "X-Id", "a"), 200)
	w.wantDuplicates(-1, 0, -1, -1, -1, 2, -1, 6, -1, 8, -1)
	redis.FastForward(61 * time.Second) // the window is over
	w.want(w.post(`{}`, "X-Id", "a"), 200)
	w.wantDuplicates(-1, 0, -1, -1, -1, 2, -1, 6, -1, 8, -1, -1)
}

// An unsigned request with a guessed deduplication key does not make the provider's signed event a duplicate. Unsigned
// copies are duplicates of each other, and so are signed ones.
func TestUnverifiedEventDoesNotMakeVerifiedDuplicate(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		deduplicated("body:$.id")(w, ep)
		ep.Verification = w.verification("github", "secret")
		ep.Verification.Mode = "observe"
	}})
	body := `{"id":1001}`
	signed := []string{"X-Hub-Signature-256", githubSignature("secret", body)}
	w.want(w.post(body, "X-Hub-Signature-256", githubSignature("guess", body)), 200)
	w.want(w.post(body, signed...), 200)
	w.want(w.post(body), 200)
	w.want(w.post(body, signed...), 200)
	events := w.stored()
	for i, want := range []struct {
		verdict event.Verdict
		of      string
	}{
		{event.VerdictObserved, ""}, {event.VerdictVerified, ""},
		{event.VerdictObserved, events[0].ID.Text(id.Event)}, {event.VerdictVerified, events[1].ID.Text(id.Event)},
	} {
		if e := events[i]; e.Verdict != want.verdict || e.DuplicateOf != want.of {
			t.Errorf("event %d is %s and repeats %q, want %+v", i, e.Verdict, e.DuplicateOf, want)
		}
	}
	// Unverified events, from before the endpoint had a verification, do not make verified ones duplicates either.
	w.change(func(ep *config.Endpoint) { ep.Verification = nil })
	w.want(w.post(`{"id":1002}`), 200)
	w.change(func(ep *config.Endpoint) { ep.Verification = w.verification("github", "secret") })
	w.want(w.post(`{"id":1002}`, "X-Hub-Signature-256", githubSignature("secret", `{"id":1002}`)), 200)
	if e := w.stored()[5]; e.DuplicateOf != "" {
		t.Error("a verified event is the duplicate of an unverified one")
	}
}

// What a provider sends again after the endpoint got a destination is delivered, once.
func TestEventsWithoutDestinationHideNoLaterOnes(t *testing.T) {
	var dests []config.Destination
	redis := miniredis.RunT(t)
	w := newWorld(t, options{redis: redis.Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		deduplicated("body:$.id")(w, ep)
		dests, ep.Destinations = ep.Destinations, nil
	}})
	w.want(w.post(`{"id":"a"}`), 200)
	w.want(w.post(`{"id":"a"}`), 200)
	redis.FastForward(50 * time.Minute)
	w.change(func(ep *config.Endpoint) { ep.Destinations = dests })
	w.want(w.post(`{"id":"a"}`), 200)
	redis.FastForward(20 * time.Minute) // longer than the window after the first, not after the one that was delivered
	w.want(w.post(`{"id":"a"}`), 200)
	events := w.stored()
	delivered := events[2].ID.Text(id.Event)
	for i, of := range []string{"", events[0].ID.Text(id.Event), "", delivered} {
		if e := events[i]; e.DuplicateOf != of || (len(e.Dests) > 0) != (i == 2) {
			t.Errorf("event %d repeats %q, to %v", i, e.DuplicateOf, e.Dests)
		}
	}
}

// The node crashes after it has stored the event that is delivered: it takes the first one's place nevertheless.
func TestEventsWithoutDestinationAreReplacedAfterACrash(t *testing.T) {
	var dests []config.Destination
	var crashes atomic.Bool
	var ahead atomic.Int64
	redis := miniredis.RunT(t)
	w := newWorld(t, options{
		redis: redis.Addr(), now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		endpoint: func(w *world, ep *config.Endpoint) {
			deduplicated("body:$.id")(w, ep)
			dests, ep.Destinations = ep.Destinations, nil
		},
		produce: func(next Producer) Producer {
			return producerFunc(func(topic string, partition int32, r *record, done func(*record, error)) {
				next.Produce(topic, partition, r, func(r *record, err error) {
					if crashes.Load() {
						err = errArrives
					}
					done(r, err)
				})
			})
		},
	})
	w.want(w.post(`{"id":"a"}`), 200)
	redis.FastForward(50 * time.Minute)
	w.change(func(ep *config.Endpoint) { ep.Destinations = dests })
	crashes.Store(true)
	w.want(w.post(`{"id":"a"}`), 503)
	crashes.Store(false)
	ahead.Store(int64(2 * time.Second))
	w.want(w.post(`{"id":"a"}`), 200)
	redis.FastForward(20 * time.Minute) // longer than the window after the first, not after the one that was delivered
	w.want(w.post(`{"id":"a"}`), 200)
	events := w.stored()
	for _, e := range events[2:] {
		if e.DuplicateOf != events[1].ID.Text(id.Event) || len(e.Dests) > 0 {
			t.Errorf("an event repeats %q, to %v", e.DuplicateOf, e.Dests)
		}
	}
}

// A node of an earlier version finds the claims under the same keys, or it would store what this one has stored.
func TestClaimKeysAreThoseOfEarlierVersions(t *testing.T) {
	ep := &config.Endpoint{ID: "ep_1", Dedup: &config.Dedup{Key: "body:$.id"}}
	hash := sha256.Sum256([]byte("a"))
	want := "dedup\x00ep_1\x00body:$.id\x00" + string(hash[:])
	is.Equal(t, claimKey(ep, event.VerdictVerified, "a"), want, "verified")
	is.Equal(t, claimKey(ep, event.VerdictObserved, "a"), want+"\x00observed", "observed")
}

// The reason duplicate takes precedence over a failed verification in observe mode and over no_destination.
func TestDuplicateReasonTakesPrecedence(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		deduplicated("body:$.id")(w, ep)
		ep.Verification = w.verification("github", "secret")
		ep.Verification.Mode, ep.Destinations = "observe", nil
	}})
	w.want(w.post(`{"id":"a"}`), 200)
	w.want(w.post(`{"id":"a"}`), 200)
	events := w.stored()
	if events[0].Reason != event.SignatureMissing || events[1].Reason != event.Duplicate ||
		events[1].Verdict != event.VerdictObserved {
		t.Fatalf("%+v", events)
	}
	if status, reason, _ := event.Summarize(events[1], nil); status != event.Skipped || reason != event.Duplicate {
		t.Errorf("%s %s", status, reason)
	}
}

// memoryClaims is a deduplication table in memory, for tests in fake time.
type memoryClaims struct {
	down atomic.Bool

	mu     sync.Mutex // guards claims
	claims map[string]claim.Claim
}

func (m *memoryClaims) Claim(_ context.Context, key string, event id.ID, note string, _ time.Duration) claim.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch held, ok := m.claims[key]; {
	case m.down.Load():
		return claim.Claim{}
	case ok:
		return held
	}
	m.claims[key] = claim.Claim{State: claim.Pending, Event: event, Note: note}
	return claim.Claim{State: claim.New, Event: event, Note: note}
}

func (m *memoryClaims) MarkStored(_ context.Context, key string, event id.ID, note string, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down.Load() {
		return errors.New("unavailable")
	}
	m.claims[key] = claim.Claim{State: claim.Stored, Event: event, Note: note}
	return nil
}

func (m *memoryClaims) Release(_ context.Context, key string, _ id.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, key)
}

// An event that arrives while an equal one is being stored, on this node or on another one, waits for it and gets the
// normal answer, also if Redis fails meanwhile. It does not wait when the log takes too long, or beside many that wait.
func TestDuplicateWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		claims := &memoryClaims{claims: map[string]claim.Claim{}}
		node := func(claimWait time.Duration) *world {
			n := newIngest(t, options{maxBody: maxBody, endpoint: deduplicated("body:$.id")}, w.log)
			n.cluster, n.reader = w.cluster, w.reader
			n.ingest.claims.Store, n.ingest.claimWait = claims, claimWait
			return n
		}
		nodes := []*world{node(time.Minute), node(time.Minute)}
		const body = `{"id":"a"}`
		var wg sync.WaitGroup
		send := func(n *world) {
			wg.Go(func() {
				if a, _ := n.serve(token, body); a.StatusCode != 200 {
					t.Errorf("answered %d %s", a.StatusCode, a.body)
				}
			})
			synctest.Wait()
		}
		log := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
		send(nodes[0])
		for _, n := range nodes {
			send(n)
			is.Equal(t, n.ingest.claims.Room.Used(), int64(waitingOverhead+len(body)), "bytes wait")
		}
		nodes[0].ingest.claims.Room.Take(maxClaimWaitBytes - int64(waitingOverhead+len(body)))
		if a, took := nodes[0].serve(token, body); a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" || took > 0 {
			t.Errorf("beside many that wait: %d %v after %v", a.StatusCode, a.Header, took)
		}
		nodes[0].ingest.claims.Room.Give(maxClaimWaitBytes - int64(waitingOverhead+len(body)))
		if a, took := node(time.Second/2).serve(token, body); a.StatusCode != 503 || took != time.Second/2 {
			t.Errorf("%d after %v", a.StatusCode, took)
		}
		claims.down.Store(true)
		time.Sleep(2 * claimPause.Longest) // each of those that wait asks once
		claims.down.Store(false)
		log.Remove()
		wg.Wait()
		nodes[0].wantDuplicates(-1, 0, 0)
		for _, n := range nodes {
			if waiting := n.ingest.claims.Room.Used(); waiting != 0 || n.dedups("duplicate") != 1 {
				t.Errorf("%d bytes wait, %v duplicates", waiting, n.dedups("duplicate"))
			}
		}
	})
}

// A burst of equal events on two nodes is delivered once. The others are duplicates, or are answered 503 if the
// first one is not stored within claimWait.
func TestDuplicateBurstOnTwoNodes(t *testing.T) {
	o := options{redis: miniredis.RunT(t).Addr(), endpoint: deduplicated("header:X-GitHub-Delivery")}
	w := newWorld(t, o)
	nodes := []*world{w, w.second(o)}
	var wg sync.WaitGroup
	var taken atomic.Int64
	for i := range 60 {
		wg.Go(func() {
			for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
				a := nodes[i%2].post(fmt.Sprintf(`{"n":%d}`, i), "X-GitHub-Delivery", "72d3162e")
				switch {
				case a.StatusCode == http.StatusOK:
					taken.Add(1)
					return
				case a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1":
					t.Errorf("answered %d %v %s", a.StatusCode, a.Header, a.body)
					return
				}
			}
		})
	}
	wg.Wait()
	events := w.stored()
	delivered := slices.DeleteFunc(slices.Clone(events), func(e *event.Event) bool { return e.DuplicateOf != "" })
	// A machine with other work may not connect to Redis within the second that a dial may take.
	unavailable := int(nodes[0].dedups("unavailable") + nodes[1].dedups("unavailable"))
	if len(delivered) < 1 || len(delivered) > 1+unavailable || int64(len(events)) != taken.Load() || taken.Load() != 60 {
		t.Fatalf("%d events, %d of them no duplicates, %d answered 200, Redis did not answer %d times", len(events),
			len(delivered), taken.Load(), unavailable)
	}
	for _, e := range events {
		if e.DuplicateOf != "" && (unavailable == 0 && e.DuplicateOf != delivered[0].ID.Text(id.Event) ||
			len(e.Dests) != 0) {
			t.Errorf("%s repeats %s, to %v", e.ID, e.DuplicateOf, e.Dests)
		}
	}
}

// Without Redis, from the start or after a failure, events are stored without deduplication.
func TestDeduplicationWithoutRedis(t *testing.T) {
	redis := miniredis.RunT(t)
	w := newWorld(t, options{redis: redis.Addr(), endpoint: deduplicated("body:$.id")})
	w.want(w.post(`{"id":"a"}`), 200)
	redis.SetError("LOADING")
	w.want(w.post(`{"id":"a"}`), 200)
	redis.SetError("")
	redis.FlushAll()
	w.want(w.post(`{"id":"a"}`), 200)
	w.wantDuplicates(-1, -1, -1)
	if w.dedups("unavailable") < 1 { // a machine with other work may miss Redis more often
		t.Errorf("counted %v", w.dedups("unavailable"))
	}
	none := newWorld(t, options{endpoint: deduplicated("body:$.id")})
	none.want(none.post(`{"id":"a"}`), 200)
	none.want(none.post(`{"id":"a"}`), 200)
	none.wantDuplicates(-1, -1)
}

// The node crashes after each step of the protocol and the provider sends the event again. In the end the event is
// stored; it is delivered twice only if the claim has expired before the retry.
func TestProviderRetriesAfterACrash(t *testing.T) {
	const body = `{"id":"a"}`
	var fault atomic.Pointer[error] // of the log
	o := options{endpoint: deduplicated("body:$.id"), produce: func(next Producer) Producer {
		return producerFunc(func(topic string, partition int32, r *record, done func(*record, error)) {
			switch err := fault.Load(); {
			case err == nil:
				next.Produce(topic, partition, r, done)
			case errors.Is(*err, errArrives):
				next.Produce(topic, partition, r, func(r *record, _ error) { done(r, *err) })
			default:
				done(r, *err)
			}
		})
	}}
	var ahead atomic.Int64
	o.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	f := func(name string, err error, check func(w *world, redis *miniredis.Miniredis)) {
		t.Run(name, func(t *testing.T) {
			redis := miniredis.RunT(t)
			ahead.Store(0)
			o := o
			o.redis = redis.Addr()
			w := newWorld(t, o)
			w.ingest.claimWait = time.Millisecond
			fault.Store(&err)
			w.want(w.post(body), 503)
			fault.Store(nil)
			check(w, redis)
		})
	}
	f("refused by the log", fmt.Errorf("buffer: %w", stream.ErrBufferFull), func(w *world, _ *miniredis.Miniredis) {
		w.want(w.post(body), 200)
		w.wantDuplicates(-1)
	})
	f("claimed, not stored", errors.New("connection lost"), func(w *world, redis *miniredis.Miniredis) {
		if a := w.want(w.post(body), 503); a.Header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.Header)
		}
		ahead.Store(int64(20 * time.Second)) // it is not in the log, but may still be in flight
		w.want(w.post(body), 503)
		search := w.ingest.claims.IsStored
		w.ingest.claims.IsStored = func(context.Context, string, id.ID) (bool, error) { return true, errors.New("away") }
		w.want(w.post(body), 503) // a search that failed has found nothing
		ahead.Store(int64(claim.TakeOverAfter))
		w.want(w.post(body), 503) // and lets nobody take over
		w.ingest.claims.IsStored = search
		is.Equal(t, w.dedups("pending"), 4, "counted")
		w.want(w.post(body), 200)
		w.want(w.post(body), 200)
		w.wantDuplicates(-1, 0)
	})
	f("stored, not marked as stored", errArrives, func(w *world, redis *miniredis.Miniredis) {
		w.want(w.post(body), 503)
		ahead.Store(int64(2 * time.Second))
		w.want(w.post(body), 200)
		w.wantDuplicates(-1, 0)
		ahead.Store(0) // the duplicate above has marked it as stored
		w.want(w.post(body), 200)
		redis.FastForward(59 * time.Minute)
		w.want(w.post(body), 200)
		w.wantDuplicates(-1, 0, 0, 0)
	})
	f("stored, not marked as stored, repeated much later", errArrives, func(w *world, redis *miniredis.Miniredis) {
		redis.FastForward(50 * time.Minute)
		ahead.Store(int64(50 * time.Minute))
		w.want(w.post(body), 200)
		w.wantDuplicates(-1, 0)
	})
}

// errArrives is the error of a log that stores the record but whose acknowledgement is lost.
var errArrives = errors.New("answer lost")

// Rejected requests have a type and claim no deduplication key: anyone can send them, and the valid event must not
// become a duplicate.
func TestRejectedRequestsDoNotClaim(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		deduplicated("body:$.id")(w, ep)
		ep.Verification = w.verification("github", "secret")
		source := "body:$.id"
		ep.TypeSource = &source
	}})
	w.want(w.post(`{"id":"a"}`, "X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), 401)
	w.want(w.post(`{"id":"a"}`, "X-Hub-Signature-256", githubSignature("secret", `{"id":"a"}`)), 200)
	w.want(w.post(`{"id":"a"}`), 401)
	w.want(w.post(`{"id":"a"}`, "X-Hub-Signature-256", githubSignature("secret", `{"id":"a"}`)), 200)
	events := w.stored()
	if len(events) != 4 || events[1].DuplicateOf != "" || events[3].DuplicateOf != events[1].ID.Text(id.Event) {
		t.Fatalf("%+v", events)
	}
	for _, e := range events { // after the secret was corrected, filters of a replay go by the type
		is.Equal(t, e.Type, "a", "the type")
	}
}

// An event that is not accepted because of the clock claims no deduplication key.
func TestClockFaultDoesNotClaim(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(), endpoint: deduplicated("body:$.id")})
	w.skew.Store(int64(time.Hour))
	w.want(w.post(`{"id":"a"}`), 503)
	w.skew.Store(0)
	w.want(w.post(`{"id":"a"}`), 200)
	w.wantDuplicates(-1)
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("clock")), 1, "counted")
}
