package tripwire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// account is a configuration with one tripwire, whose key is "canary" and whose token is "token".
type account struct {
	tripwire *leak.Tripwire
	keysErr  error
	keys     func(context.Context) error // if it is set: the error of FindingKeys

	mu    sync.Mutex
	ended []leak.TripwireTest
}

func (a *account) TripwireByKey(text string) string {
	if text == "canary" {
		return a.tripwire.ID
	}
	return ""
}

func (a *account) TripwireByToken(token string) *leak.Tripwire {
	if token == "token" {
		return a.tripwire
	}
	return nil
}

func (a *account) Tripwire(id string) (*leak.Tripwire, entity.Presence) {
	if id == a.tripwire.ID {
		return a.tripwire, entity.Present
	}
	return nil, entity.Unknown
}

func (a *account) FakeEndpoint(t *leak.Tripwire) *config.Endpoint {
	return &config.Endpoint{ID: t.ID}
}

func (a *account) EndTripwireTest(_ context.Context, _ string, used leak.TripwireTest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, used)
	return nil
}

func (a *account) FindingKeys(ctx context.Context) (finding.Keys, error) {
	if a.keys != nil {
		return finding.Keys{Salt: []byte("salt")}, a.keys(ctx)
	}
	return finding.Keys{Salt: []byte("salt")}, a.keysErr
}

// topic keeps the hits that were produced.
type topic struct {
	t    testing.TB
	mu   sync.Mutex
	hits []*finding.Hit
	err  error
}

func (p *topic) ProduceUnordered(name string, partition int32, r *stream.Record, done func(*stream.Record, error)) {
	h, err := finding.Decode(r.Value)
	if err != nil || name != stream.Findings || partition != finding.PartitionOf(h.Finding, 4) {
		p.t.Errorf("%s/%d: %v", name, partition, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hits = append(p.hits, h)
	done(r, p.err)
}

// take returns the hits since the last call.
func (p *topic) take() []*finding.Hit {
	time.Sleep(pause)
	return p.takeNow()
}

func (p *topic) takeNow() []*finding.Hit {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	hits := p.hits
	p.hits = nil
	return hits
}

type rig struct {
	*Wires
	account  *account
	topic    *topic
	registry *prometheus.Registry
	ids      *id.Generator
}

// bubble runs a test with fake time and Wires that run.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scanner := must.Get(secrets.New(secrets.ForLeaks))(t)
		secret := func(last4 string) *leak.TripwireSecret {
			return &leak.TripwireSecret{Fingerprint: "fpr_" + last4, Last4: last4}
		}
		r := &rig{registry: prometheus.NewRegistry(), ids: id.NewGenerator(time.Now), topic: &topic{t: t}}
		r.account = &account{tripwire: &leak.Tripwire{
			Meta: entity.Meta{ID: "trw_1", Account: "acc_1"}, Kind: leak.TripwireFile, Label: "decoy", Key: secret("kkkk"),
			URL: secret("uuuu")}}
		r.Wires = New(Deps{Log: slog.New(slog.DiscardHandler), Metrics: r.registry, Config: r.account, Producer: r.topic,
			Scanner: scanner, Partitions: 4, Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(t, r)
		cancel()
		is.OK(t, <-ended)
	})
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest("PATCH", "/v1/events", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// The key and the URL of a tripwire make hits of one finding, with what the request says: bounded, without secrets, and
// of the referring page the origin only. A wrong key and a wrong token make none.
func TestHits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		key := "rly_live_" + strings.Repeat("a", 32)
		r.CheckKey("wrong", request())
		r.CheckKey("canary", request("User-Agent", strings.Repeat("é", 300), "Referer", "https://a.example/path?q"))
		r.CheckKey("canary", request("Referer", "javascript:x", "User-Agent",
			"curl "+"sk_live_"+"4eC39HqLyjWDarjtT1zdp7dc "+key))
		hits := r.topic.take()
		must.Equal(t, len(hits), 2, "hits")
		h := hits[0]
		keys, _ := r.account.FindingKeys(t.Context())
		if h.Kind != finding.Tripwire || h.Source != finding.FromTripwire || h.Channel != "used" || h.Sender != "trw_1" ||
			h.Severity != finding.Critical || h.Rule != "tripwire" || h.Fingerprint != "fpr_kkkk" || h.Billed || h.Test ||
			h.Finding != keys.TripwireID("trw_1", false) || h.Masked != "rly_live_***kkkk" || h.Method != "PATCH" ||
			h.Location.TripwireID != "trw_1" || h.Location.Label != "decoy" || h.Location.URL != "https://a.example" ||
			len(h.Agent) > maxHeader || !strings.HasPrefix(h.Agent, "éé") {
			t.Errorf("%+v", h)
		}
		if h := hits[1]; h.Location.URL != "" || strings.Contains(h.Agent, "4eC39HqLyjWDarjt") || h.ID == hits[0].ID {
			t.Errorf("%+v", h)
		}
		ep, source := r.Endpoint("token", request())
		if wrong, _ := r.Endpoint("wrong", request()); ep == nil || wrong != nil || source != event.SourceTripwire {
			t.Fatal(ep, wrong, source)
		}
		r.Touch(ep, source, request())
		if queued := r.topic.take(); len(queued) != 1 || queued[0].Fingerprint != "fpr_uuuu" || queued[0].Test {
			t.Errorf("%+v", queued)
		}
	})
}

// A hit has the address of the client.
func TestHitsHaveTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		front := &web.Front{}
		front.Wrap(func(_ http.ResponseWriter, req *http.Request) error {
			r.CheckKey("canary", req)
			return nil
		}).ServeHTTP(httptest.NewRecorder(), request())
		if hits := r.topic.take(); len(hits) != 1 || hits[0].RemoteIP != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%+v", hits)
		}
	})
}

// Run produces the hits that are in the queue when its context ends.
func TestQueueIsEmptiedAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.account.keys = func(ctx context.Context) error { return ctx.Err() }
		for n := range 20 { // which of the two Run notices first is random
			deps := r.deps
			deps.Metrics = prometheus.NewRegistry()
			w := New(deps)
			w.CheckKey("canary", request())
			w.CheckKey("canary", request())
			is.OK(t, w.Run(ctx))
			if hits := r.topic.takeNow(); len(hits) != 2 {
				t.Fatalf("time %d: %d hits", n, len(hits))
			}
		}
	})
}

// Tests that were used are forgotten an hour after they would have ended.
func TestUsedTestsAreForgotten(t *testing.T) {
	x := tests{used: map[string]leak.TripwireTest{}}
	until := time.Unix(1_800_000_000, 0)
	for n := range 200 {
		test := leak.TripwireTest{From: "192.0.2.1", Until: until.Add(time.Duration(n) * time.Minute)}
		if tripwire := fmt.Sprint(n); !x.take(tripwire, test) || x.take(tripwire, test) {
			t.Fatalf("test %d is not taken once", n)
		}
	}
	is.Equal(t, len(x.used), 61, "tests are remembered")
}

// A use that is in the topic events makes the same hit whenever it is read, with what a request says. A test stays one,
// and the use of a tripwire that is gone makes none.
func TestHitsOfRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		e := r.use()
		e.Header = []event.Field{{Name: "User-Agent", Value: "curl " + strings.Repeat("x", 300)},
			{Name: "Referer", Value: "https://a.example/path?q"}}
		h, other := r.hitOf(e), r.hitOf(r.use())
		if h.Fingerprint != "fpr_uuuu" || h.Masked != "****uuuu" || h.Kind != finding.Tripwire || h.Test ||
			h.Method != "PATCH" || len(h.Agent) != maxHeader || h.Location.URL != "https://a.example" ||
			!h.At.Equal(e.ReceivedAt()) || h.RemoteIP != e.RemoteIP || h.Severity != finding.Critical {
			t.Errorf("%+v", h)
		}
		if again := r.hitOf(e); again.ID != h.ID || other.ID == h.ID || other.Finding != h.Finding {
			t.Errorf("%x, again %x, another one %x", h.ID, again.ID, other.ID)
		}
		test := r.use()
		test.Source = event.SourceTripwireTest
		for range 2 {
			if x := r.hitOf(test); !x.Test || x.Finding == h.Finding {
				t.Errorf("%+v", x)
			}
		}
		is.Equal(t, testutil.ToFloat64(r.metrics.uses.WithLabelValues("url")), 5, "uses are counted")
		r.account.keysErr = errors.New("no service secret")
		if _, record, err := r.Hit(t.Context(), e); record != nil || err == nil {
			t.Errorf("without keys: %v", record)
		}
		r.account.tripwire = &leak.Tripwire{Meta: entity.Meta{ID: "trw_2"}}
		if _, record, err := r.Hit(t.Context(), e); record != nil || err != nil {
			t.Errorf("of a tripwire that is gone: %v, %v", record, err)
		}
	})
}

// use returns a use of the URL that is in the topic events.
func (r *rig) use() *event.Event {
	made, err := r.ids.New(0)
	if err != nil {
		panic(err)
	}
	return &event.Event{ID: made, Endpoint: "trw_1", Source: event.SourceTripwire, Method: "PATCH",
		RemoteIP: netip.MustParseAddr("192.0.2.1")}
}

// hitOf returns the hit of a use; nil if it makes none.
func (r *rig) hitOf(e *event.Event) *finding.Hit {
	r.topic.t.Helper()
	partition, record, err := r.Hit(context.Background(), e)
	must.Do(r.topic.t, err)
	if record == nil {
		return nil
	}
	h, err := finding.Decode(record.Value)
	if err != nil || string(record.Key) != h.Finding || partition != finding.PartitionOf(h.Finding, 4) {
		r.topic.t.Fatalf("%+v in partition %d: %v", h, partition, err)
	}
	return h
}

// A hundred uses in a UTC day have rows of their own. Then the uses in one minute are one hit.
func TestRowsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ids := map[[16]byte]bool{}
		count := func(uses int) int {
			for range uses {
				r.CheckKey("canary", request())
			}
			for _, h := range r.topic.take() {
				ids[h.ID] = true
			}
			return len(ids)
		}
		is.Equal(t, count(maxRows), maxRows, "rows of %d uses", maxRows)
		is.Equal(t, count(50), maxRows+1, "rows after 50 more in a minute")
		time.Sleep(time.Minute)
		is.Equal(t, count(50), maxRows+2, "rows after 50 more in the next minute")
		time.Sleep(24 * time.Hour)
		is.Equal(t, count(2), maxRows+4, "rows after two on the next day")
		yesterday := r.use().ID
		time.Sleep(24 * time.Hour)
		stored := 0
		for range 2 {
			for range maxRows + 50 {
				if h := r.hitOf(r.use()); h != nil {
					ids[h.ID] = true
					stored++
				}
			}
			late := r.use()
			late.ID = yesterday
			r.hitOf(late)
			time.Sleep(time.Minute)
		}
		if stored != maxRows+2 || len(ids) != 2*maxRows+6 {
			t.Errorf("uses in the topic events, in two minutes: %d hits are stored, in %d rows", stored, len(ids)-maxRows-4)
		}
		is.Equal(t, count(1), 2*maxRows+7, "the use of a key after them has no row")
	})
}

// The first use from the address that asked for a test, and no other one, is a test. It is a hit of another finding,
// low, and ends the test everywhere.
func TestTests(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		use := func() *finding.Hit {
			t.Helper()
			r.CheckKey("canary", request())
			hits := r.topic.take()
			must.Equal(t, len(hits), 1, "hits")
			return hits[0]
		}
		// A request without a Front has no address.
		expect := func(from string) {
			r.account.tripwire.Test = &leak.TripwireTest{From: from, Until: time.Now().Add(leak.TripwireTestLife)}
		}
		expect("192.0.2.1")
		if use().Test {
			t.Error("a use from another address is a test")
		}
		const address = "invalid IP"
		expect(address)
		h, real := use(), use()
		if !h.Test || h.Severity != finding.Low || real.Test || h.Finding == real.Finding {
			t.Errorf("%+v\n%+v", h, real)
		}
		if len(r.account.ended) != 1 || r.account.ended[0] != *r.account.tripwire.Test {
			t.Errorf("ended: %v", r.account.ended)
		}
		expect(address)
		r.account.tripwire.Test.Until = time.Now()
		if use().Test {
			t.Error("it is a test after its time")
		}
		time.Sleep(time.Second)
		if expect(address); !use().Test {
			t.Error("the next test is none")
		}
		time.Sleep(time.Second)
		expect(address)
		ep, source := r.Endpoint("token", request())
		if _, second := r.Endpoint("token", request()); source != event.SourceTripwireTest || second == source {
			t.Errorf("uses of the URL are %s and %s", source, second)
		}
		r.Touch(ep, source, request())
		if hits := r.topic.take(); len(hits) != 1 || !hits[0].Test {
			t.Errorf("%+v", hits)
		}
	})
}

// A full queue drops uses and counts them; wrong keys take at most half of it. What is in the queue when the node ends
// is produced.
func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		quiet := New(Deps{Log: r.deps.Log, Metrics: prometheus.NewRegistry(), Config: r.account, Producer: r.topic,
			Scanner: r.deps.Scanner, Partitions: 4, Now: time.Now})
		for range 2 * maxQueued {
			quiet.CheckKey("wrong", request())
		}
		is.Equal(t, len(quiet.queue), maxQueued/2, "wrong keys are queued")
		for range maxQueued/2 + 3 {
			quiet.CheckKey("canary", request())
		}
		is.Equal(t, testutil.ToFloat64(quiet.metrics.dropped.WithLabelValues("queue_full")), 3,
			"are counted as dropped")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := quiet.Run(ctx); err != nil || len(r.topic.take()) != maxQueued/2 {
			t.Errorf("not all were produced at the end: %v", err)
		}
	})
}

// The hit of a key is not made while the request may still be answered. It is made at the end of the node without that
// wait.
func TestHitsWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.CheckKey("canary", request())
		time.Sleep(pause - 1)
		is.Equal(t, len(r.topic.takeNow()), 0, "hits at once")
		is.Equal(t, len(r.topic.take()), 1, "hits after the pause")
		ctx, cancel := context.WithCancel(t.Context())
		quiet := New(Deps{Log: r.deps.Log, Metrics: prometheus.NewRegistry(), Config: r.account, Producer: r.topic,
			Scanner: r.deps.Scanner, Partitions: 4, Now: time.Now})
		ended := make(chan error)
		go func() { ended <- quiet.Run(ctx) }()
		quiet.CheckKey("canary", request())
		synctest.Wait()
		cancel()
		err := <-ended
		if n := len(r.topic.takeNow()); n != 1 || err != nil {
			t.Errorf("%d hits at the end: %v", n, err)
		}
	})
}

// What the log does not take, and what has no keys, is counted.
func TestLostHitsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.topic.err = errors.New("the broker is away")
		r.CheckKey("canary", request())
		r.topic.take()
		r.account.keysErr = errors.New("no service secret")
		r.CheckKey("canary", request())
		r.topic.take()
		for _, cause := range []string{"log", "no_keys"} {
			is.Equal(t, testutil.ToFloat64(r.metrics.dropped.WithLabelValues(cause)), 1, cause)
		}
	})
}
