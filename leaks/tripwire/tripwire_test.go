package tripwire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
)

// account is a configuration with one tripwire, whose key is "canary" and whose token is "token".
type account struct {
	tripwire *config.Tripwire
	keysErr  error

	mu    sync.Mutex
	ended []config.TripwireTest
}

func (a *account) TripwireByKey(text string) string {
	if text == "canary" {
		return a.tripwire.ID
	}
	return ""
}

func (a *account) TripwireByToken(token string) *config.Tripwire {
	if token == "token" {
		return a.tripwire
	}
	return nil
}

func (a *account) Tripwire(id string) (*config.Tripwire, config.Presence) {
	if id == a.tripwire.ID {
		return a.tripwire, config.Present
	}
	return nil, config.Unknown
}

func (a *account) DecoyEndpoint(t *config.Tripwire) *config.Endpoint {
	return &config.Endpoint{ID: t.ID}
}

func (a *account) EndTripwireTest(_ context.Context, _ string, used config.TripwireTest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, used)
	return nil
}

func (a *account) FindingKeys(context.Context) (finding.Keys, error) {
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
}

// bubble runs a test with fake time and Wires that run.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scanner, err := secrets.New(secrets.ForLeaks)
		if err != nil {
			t.Fatal(err)
		}
		secret := func(last4 string) *config.TripwireSecret {
			return &config.TripwireSecret{Fingerprint: "fpr_" + last4, Last4: last4}
		}
		r := &rig{registry: prometheus.NewRegistry(), topic: &topic{t: t}, account: &account{tripwire: &config.Tripwire{
			Meta: config.Meta{ID: "trw_1", Account: "acc_1"}, Kind: config.TripwireFile, Label: "decoy", Key: secret("kkkk"),
			URL: secret("uuuu")}}}
		r.Wires = New(Deps{Log: slog.New(slog.DiscardHandler), Metrics: r.registry, Config: r.account, Producer: r.topic,
			Scanner: scanner, Partitions: 4, Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(t, r)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
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
		if len(hits) != 2 {
			t.Fatalf("%d hits", len(hits))
		}
		h := hits[0]
		keys, _ := r.account.FindingKeys(t.Context())
		if h.Kind != finding.Tripwire || h.Source != finding.FromTripwire || h.Channel != "used" || h.Sender != "trw_1" ||
			h.Severity != finding.Critical || h.Rule != "tripwire" || h.Fingerprint != "fpr_kkkk" || h.Billed || h.Test ||
			h.Finding != keys.TripwireID("trw_1", false) || h.Masked != "rly_live_***kkkk" || h.Method != "PATCH" ||
			h.Location.TripwireID != "trw_1" || h.Location.Label != "decoy" || h.Location.URL != "https://a.example" ||
			len(h.Agent) > maxAgent || !strings.HasPrefix(h.Agent, "éé") {
			t.Errorf("%+v", h)
		}
		if h := hits[1]; h.Location.URL != "" || strings.Contains(h.Agent, "4eC39HqLyjWDarjt") || h.ID == hits[0].ID {
			t.Errorf("%+v", h)
		}
		ep := r.Endpoint("token")
		if ep == nil || r.Endpoint("wrong") != nil {
			t.Fatal(ep)
		}
		r.Touch(ep, request())
		_, record, err := r.Hit(ep, request())
		if err != nil {
			t.Fatal(err)
		}
		direct, err := finding.Decode(record.Value)
		if err != nil || direct.Fingerprint != "fpr_uuuu" || direct.Masked != "****uuuu" || direct.Finding != h.Finding {
			t.Errorf("%+v, %v", direct, err)
		}
		if queued := r.topic.take(); len(queued) != 1 || queued[0].Fingerprint != "fpr_uuuu" {
			t.Errorf("%+v", queued)
		}
		r.account.tripwire = &config.Tripwire{Meta: config.Meta{ID: "trw_2"}}
		if _, record, err := r.Hit(ep, request()); record != nil || err != nil {
			t.Errorf("of a tripwire that is gone: %v, %v", record, err)
		}
	})
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
		if n := count(maxRows); n != maxRows {
			t.Errorf("%d rows of %d uses", n, maxRows)
		}
		if n := count(50); n != maxRows+1 {
			t.Errorf("%d rows after 50 more in a minute", n)
		}
		time.Sleep(time.Minute)
		if n := count(50); n != maxRows+2 {
			t.Errorf("%d rows after 50 more in the next minute", n)
		}
		time.Sleep(24 * time.Hour)
		if n := count(2); n != maxRows+4 {
			t.Errorf("%d rows after two on the next day", n)
		}
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
			if len(hits) != 1 {
				t.Fatalf("%d hits", len(hits))
			}
			return hits[0]
		}
		// A request without a Front has no address.
		expect := func(from string) {
			r.account.tripwire.Test = &config.TripwireTest{From: from, Until: time.Now().Add(config.TripwireTestLife)}
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
		if n := len(quiet.queue); n != maxQueued/2 {
			t.Errorf("%d wrong keys are queued", n)
		}
		for range maxQueued/2 + 3 {
			quiet.CheckKey("canary", request())
		}
		if n := testutil.ToFloat64(quiet.metrics.dropped.WithLabelValues("queue_full")); n != 3 {
			t.Errorf("%v are counted as dropped", n)
		}
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
		if n := len(r.topic.takeNow()); n != 0 {
			t.Errorf("%d hits at once", n)
		}
		if n := len(r.topic.take()); n != 1 {
			t.Errorf("%d hits after the pause", n)
		}
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
			if n := testutil.ToFloat64(r.metrics.dropped.WithLabelValues(cause)); n != 1 {
				t.Errorf("%s: %v", cause, n)
			}
		}
	})
}
