package alert

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

const (
	testEndpoint = "ep_1"
	testDest     = "dst_1"
	testAccount  = "acc_1"
)

// memory is a configuration log of one process: every change is conditional on the value before it.
type memory struct {
	mu       sync.Mutex // guards the rest
	endpoint *config.Endpoint
	settings config.AlertSettings
	alerts   map[string]*config.Alert
	jobs     []*config.Recovery
	writes   int
	down     bool // takes no record
}

func newMemory(k *config.Keyring) *memory {
	m := &memory{
		endpoint: &config.Endpoint{ID: testEndpoint, Name: "orders", Destinations: []config.Destination{
			{ID: testDest, Enabled: true, URL: "https://example.com/hush"},
			{ID: "dst_2", Enabled: true, URL: "https://example.com/2"},
		}},
		settings: config.AlertSettings{
			Meta: config.Meta{ID: testAccount, Account: testAccount}, Rules: config.DefaultAlertRules(),
			CooldownSeconds: config.DefaultAlertCooldown},
		alerts: map[string]*config.Alert{},
	}
	m.settings.Channels = []config.AlertChannel{
		{Kind: string(notify.Email), Enabled: true, To: []string{"a@example.com", "b@example.com"}},
		{Kind: string(notify.Slack), Enabled: true,
			URL: k.SealString(testAccount, config.FieldAlertURL("slack"), "https://hooks.slack.com/services/x")},
		{Kind: string(notify.Webhook), Enabled: true,
			URL:    k.SealString(testAccount, config.FieldAlertURL("webhook"), "https://ops.example.com/x"),
			Secret: k.SealString(testAccount, config.FieldAlertSecret("webhook"), sign.NewSecret().Reveal())},
	}
	return m
}

func (m *memory) Endpoint(id string) (*config.Endpoint, config.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.endpoint == nil || id != m.endpoint.ID {
		return nil, config.Deleted
	}
	e := *m.endpoint
	e.Destinations = slices.Clone(e.Destinations)
	return &e, config.Present
}

func (m *memory) AlertSettings() *config.AlertSettings {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.settings
	s.Channels = slices.Clone(s.Channels)
	return &s
}

func (m *memory) Alert(id string) *config.Alert {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied(m.alerts[id])
}

// asRead is an alert as it comes back from the log.
func asRead(a *config.Alert) *config.Alert {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	var c config.Alert
	if err := json.Unmarshal(b, &c); err != nil {
		panic(err)
	}
	return &c
}

func copied(a *config.Alert) *config.Alert {
	if a == nil {
		return nil
	}
	c := *a
	c.Notices = slices.Clone(a.Notices)
	for i := range c.Notices {
		c.Notices[i].PendingTargets = slices.Clone(c.Notices[i].PendingTargets)
	}
	if a.Budget != nil {
		b := *a.Budget
		b.Sent = slices.Clone(b.Sent)
		c.Budget = &b
	}
	return &c
}

func (m *memory) Alerts(keep func(*config.Alert) bool) (all []*config.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.alerts {
		if keep(a) {
			all = append(all, copied(a))
		}
	}
	return all
}

func (m *memory) ChangeAlert(_ context.Context, id string, alter func(*config.Alert) error) (*config.Alert, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, config.ErrUnavailable
	}
	a := copied(m.alerts[id])
	if a == nil {
		a = &config.Alert{Meta: config.Meta{ID: id}}
	}
	if err := alter(a); err != nil {
		if errors.Is(err, config.ErrAlertUnchanged) {
			err = nil
		}
		return nil, err
	}
	a.UpdatedAt = time.Now()
	m.alerts[id] = asRead(a)
	m.writes++
	return copied(a), nil
}

func (m *memory) EndedRecoveries(since time.Time) (jobs []*config.Recovery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if j.FinishedAt.After(since) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (m *memory) ForgetAlert(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.alerts, id)
	return nil
}

// set changes the configuration.
func (m *memory) set(f func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// post is one message that a channel was given.
type post struct {
	kind notify.Kind
	to   []string
	m    notify.Message
	at   time.Time
}

// office takes messages.
type office struct {
	mu       sync.Mutex // guards posts
	posts    []post
	SendFunc func(notify.Channel, notify.Message) notify.Result
}

func (o *office) Send(_ context.Context, c notify.Channel, m notify.Message) notify.Result {
	o.mu.Lock()
	o.posts = append(o.posts, post{c.Kind, c.To, m, time.Now()})
	f := o.SendFunc
	o.mu.Unlock()
	if f != nil {
		return f(c, m)
	}
	return notify.Result{OK: true}
}

// all is what was sent so far.
func (o *office) all() []post {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.posts)
}

// types are the types of what one kind of channel was given, in order.
func (o *office) types(kind notify.Kind) (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.posts {
		if p.kind == kind {
			all = append(all, p.m.Type)
		}
	}
	return all
}

// rig is a node's part without the log: records are handed to it.
type rig struct {
	*Alerts
	t      *testing.T
	memory *memory
	office *office
	ids    *id.Generator
	offset int64
	events int64

	account time.Time // when what is no partition's was judged last
}

func testKeyring(t *testing.T) *config.Keyring {
	t.Helper()
	k, err := config.NewKeyring(config.GenerateMasterKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newRig(t *testing.T) *rig {
	t.Helper()
	k := testKeyring(t)
	return rigOn(t, "a", k, newMemory(k), &office{})
}

// rigOn is another node on the same configuration.
func rigOn(t *testing.T, node string, k *config.Keyring, m *memory, o *office) *rig {
	t.Helper()
	a, err := New(Config{Node: node, BaseURL: "https://relay.example.com"}, Deps{
		Log: slog.New(slog.DiscardHandler), Stream: stream.Config{Brokers: []string{"localhost:1"}}, Config: m, History: m,
		Keyring: k, Sender: o,
		Now: time.Now, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.books[0] = newBook(0)
	return &rig{Alerts: a, t: t, memory: m, office: o, ids: id.NewGenerator(nil)}
}

// logInBubble is a log of one partition for a test with fake time; what the test closes by defer is closed before it.
func logInBubble(t *testing.T) (*kfake.Cluster, stream.Config) {
	t.Helper()
	var network kfake.VirtualNetwork
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	conf := stream.Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext, Prefix: "relay."}
	if _, err := stream.Migrate(t.Context(), conf, 1, 1); err != nil {
		t.Fatal(err)
	}
	return cluster, conf
}

// outcome hands one to the rig, of a new event if e is zero.
func (r *rig) outcome(e id.ID, status event.Status, reason event.Reason, attempt *event.Attempt) id.ID {
	r.t.Helper()
	if e.IsZero() {
		var err error
		if e, err = r.ids.New(0); err != nil {
			r.t.Fatal(err)
		}
	}
	o := &event.Outcome{Event: e, Account: testAccount, Endpoint: testEndpoint, Dest: testDest, Status: status,
		Reason: reason, At: time.Now(), Attempt: attempt}
	r.hand(stream.Outcomes, o.Record(), &r.offset)
	return e
}

func (r *rig) hand(topic string, rec *stream.Record, offset *int64) {
	r.t.Helper()
	rec.Topic, rec.Offset, rec.Timestamp = topic, *offset, time.Now()
	*offset++
	if err := r.take(r.t.Context(), stretch{stream.Partition{Topic: topic}, []*stream.Record{rec}},
		map[stream.Partition]stream.Commit{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) attempt(ok bool) *event.Attempt {
	return &event.Attempt{ID: r.ids.Next(0), StartedAt: time.Now(), Trigger: event.TriggerInitial, OK: ok}
}

// fails n attempts, each of an event that is tried again.
func (r *rig) fails(n int) {
	r.t.Helper()
	for range n {
		r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
	}
}

func (r *rig) delivers(e id.ID) { r.t.Helper(); r.outcome(e, event.Delivered, "", r.attempt(true)) }

// passes lets time pass, with a beat every second.
func (r *rig) passes(d time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(beat, time.Until(end)))
		if err := r.beat(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		if time.Since(r.account) < accountEvery {
			continue
		}
		r.account = time.Now()
		if err := r.judgeAccount(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// notices are the types of all messages that alerts of a rule hold; nothing sends them here.
func (r *rig) notices(about rule) (types []string) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	for name, a := range r.memory.alerts {
		if len(name) > len(about.topic()) && name[:len(about.topic())+1] == about.topic()+"/" {
			for _, n := range a.Notices {
				types = append(types, n.Type)
			}
		}
	}
	return types
}

func (r *rig) wants(about rule, types ...string) {
	r.t.Helper()
	if got := r.notices(about); !slices.Equal(got, types) {
		r.t.Errorf("%s announced %v, want %v", about.setting(), got, types)
	}
}

// only leaves one rule on.
func (r *rig) only(alter func(*config.AlertRules)) {
	r.memory.set(func(m *memory) {
		m.settings.Rules = config.AlertRules{
			FailureRate:         config.AlertRateRule{WindowSeconds: 300, Percent: 50, MinAttempts: 20},
			ConsecutiveFailures: config.AlertThresholdRule{Threshold: 20}, VerificationFailed: config.AlertThresholdRule{
				Threshold: 10}}
		alter(&m.settings.Rules)
	})
}

// noEvent asks for a new one.
var noEvent id.ID
