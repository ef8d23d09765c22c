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
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

const (
	testEndpoint = "ep_1"
	testDest     = "dst_1"
	testAccount  = "acc_1"
)

// fakeConfig is a configuration log in memory: every change is conditional on the value before it.
type fakeConfig struct {
	mu          sync.Mutex // guards the rest
	endpoint    *config.Endpoint
	settings    alerting.AlertSettings
	alerts      map[string]*alerting.Alert
	findings    map[string]*leak.Finding
	jobs        []*jobs.Recovery
	writes      int
	most        int  // alerts; 0 = any number
	unavailable bool // takes no record
}

func newFakeConfig(k *seal.Keyring) *fakeConfig {
	m := &fakeConfig{
		endpoint: &config.Endpoint{ID: testEndpoint, Name: "orders", Destinations: []config.Destination{
			{ID: testDest,
				DestinationSettings: config.DestinationSettings{Enabled: true}, URL: "https://example.com/hush"},
			{ID: "dst_2", DestinationSettings: config.DestinationSettings{Enabled: true}, URL: "https://example.com/2"},
		}},
		settings: alerting.AlertSettings{
			Meta: entity.Meta{ID: testAccount, Account: testAccount}, Rules: alerting.DefaultAlertRules(),
			CooldownSeconds: alerting.DefaultAlertCooldown},
		alerts: map[string]*alerting.Alert{},
	}
	m.settings.Channels = []alerting.AlertChannel{
		{Kind: string(notify.Email), Enabled: true, To: []string{"a@example.com", "b@example.com"}},
		{Kind: string(notify.Slack), Enabled: true,
			URL: k.SealString(testAccount, alerting.FieldAlertURL("slack"), "https://hooks.slack.com/services/x")},
		{Kind: string(notify.Webhook), Enabled: true,
			URL:    k.SealString(testAccount, alerting.FieldAlertURL("webhook"), "https://ops.example.com/x"),
			Secret: k.SealString(testAccount, alerting.FieldAlertSecret("webhook"), sign.NewSecret().Reveal())},
	}
	return m
}

func (m *fakeConfig) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.endpoint == nil || id != m.endpoint.ID {
		return nil, entity.Deleted
	}
	e := *m.endpoint
	e.Destinations = slices.Clone(e.Destinations)
	return &e, entity.Present
}

func (m *fakeConfig) AlertSettings() *alerting.AlertSettings {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.settings
	s.Channels = slices.Clone(s.Channels)
	return &s
}

func (m *fakeConfig) Alert(id string) *alerting.Alert {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied(m.alerts[id])
}

// decoded returns an alert as it is read back from the log.
func decoded(a *alerting.Alert) *alerting.Alert {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	var c alerting.Alert
	if err := json.Unmarshal(b, &c); err != nil {
		panic(err)
	}
	return &c
}

func copied(a *alerting.Alert) *alerting.Alert {
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

func (m *fakeConfig) Alerts(keep func(*alerting.Alert) bool) (all []*alerting.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.alerts {
		if keep(a) {
			all = append(all, copied(a))
		}
	}
	return all
}

func (m *fakeConfig) AlertsWithNotices(keep func(*alerting.Alert) bool) []*alerting.Alert {
	return m.Alerts(func(a *alerting.Alert) bool { return len(a.Notices) > 0 && (keep == nil || keep(a)) })
}

func (m *fakeConfig) Finding(id string) (*leak.Finding, entity.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.findings[id]; f != nil {
		return f, entity.Present
	}
	return nil, entity.Unknown
}

func (m *fakeConfig) ChangeAlert(_ context.Context, id string, alter func(*alerting.Alert) error) (
	*alerting.Alert, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return nil, config.ErrUnavailable
	}
	a := copied(m.alerts[id])
	if a == nil && m.most > 0 && len(m.alerts) >= m.most {
		return nil, config.ErrStateFull
	}
	if a == nil {
		a = &alerting.Alert{Meta: entity.Meta{ID: id}}
	}
	if err := alter(a); err != nil {
		if errors.Is(err, alerting.ErrAlertUnchanged) {
			err = nil
		}
		return nil, err
	}
	a.UpdatedAt = time.Now()
	m.alerts[id] = decoded(a)
	m.writes++
	return copied(a), nil
}

func (m *fakeConfig) EndedRecoveries(since time.Time) (jobs []*jobs.Recovery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		if j.FinishedAt.After(since) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (m *fakeConfig) ForgetAlert(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.alerts, id)
	return nil
}

// set changes the configuration.
func (m *fakeConfig) set(f func(*fakeConfig)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// sentMessage is one message that a channel received.
type sentMessage struct {
	kind notify.Kind
	to   []string
	m    notify.Message
	at   time.Time
}

// fakeSender records messages instead of sending them.
type fakeSender struct {
	mu       sync.Mutex // guards the fields below
	messages []sentMessage
	SendFunc func(notify.Channel, notify.Message) notify.Result
	hangs    bool // until a send is given up
}

func (o *fakeSender) Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result {
	o.mu.Lock()
	o.messages = append(o.messages, sentMessage{c.Kind, c.To, m, time.Now()})
	f, hangs := o.SendFunc, o.hangs
	o.mu.Unlock()
	if hangs {
		select {
		case <-ctx.Done():
		case <-time.After(notify.Timeout):
		}
		return notify.Result{Error: event.CodeTimeout}
	}
	if f != nil {
		return f(c, m)
	}
	return notify.Result{OK: true}
}

// all returns the messages that were sent so far.
func (o *fakeSender) all() []sentMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.messages)
}

// types returns the types of the messages to one kind of channel, in order.
func (o *fakeSender) types(kind notify.Kind) (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.messages {
		if p.kind == kind {
			all = append(all, p.m.Type)
		}
	}
	return all
}

// rig is the alert stage of one node without a log: tests process records directly.
type rig struct {
	*Alerts
	t      *testing.T
	config *fakeConfig
	sender *fakeSender
	ids    *id.Generator
	offset int64
	events int64

	accountRunAt time.Time // when the account rules were evaluated last
}

func testKeyring(t *testing.T) *seal.Keyring {
	t.Helper()
	k := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
	return k
}

func newRig(t *testing.T) *rig {
	t.Helper()
	k := testKeyring(t)
	return rigOn(t, "a", k, newFakeConfig(k), &fakeSender{})
}

// rigOn returns another node that shares the configuration.
func rigOn(t *testing.T, node string, k *seal.Keyring, m *fakeConfig, o *fakeSender) *rig {
	t.Helper()
	a := must.Get(New(Config{Node: node, BaseURL: "https://relay.example.com"}, Deps{
		Log: slog.New(slog.DiscardHandler), Stream: stream.Config{Brokers: []string{"localhost:1"}}, Config: m,
		Keyring: k, Sender: o,
		Now: time.Now, Metrics: prometheus.NewRegistry(),
	}))(t)
	a.partitions[0] = newPartitionState(0)
	return &rig{Alerts: a, t: t, config: m, sender: o, ids: id.NewGenerator(nil)}
}

// logInBubble returns a log of one partition for a test with fake time. Whatever the test closes by defer is closed
// before it.
func logInBubble(t *testing.T) (*kfake.Cluster, stream.Config) {
	t.Helper()
	var network kfake.VirtualNetwork
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
	t.Cleanup(cluster.Close)
	conf := stream.Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext, Prefix: "relay."}
	must.Get(stream.Migrate(t.Context(), conf, 1, 1))(t)
	return cluster, conf
}

// outcome processes an outcome, of a new event if e is zero.
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
	r.processRecord(stream.Outcomes, o.Record(), &r.offset)
	return e
}

func (r *rig) processRecord(topic string, rec *stream.Record, offset *int64) {
	r.t.Helper()
	rec.Topic, rec.Offset, rec.Timestamp = topic, *offset, time.Now()
	*offset++
	batch := stream.Batch{Partition: stream.Partition{Topic: topic}, Records: []*stream.Record{rec}}
	must.Do(r.t, r.processBatch(r.t.Context(), batch, map[stream.Partition]stream.Commit{}))
}

func (r *rig) attempt(ok bool) *event.Attempt {
	return &event.Attempt{ID: r.ids.NewUnbounded(0), StartedAt: time.Now(), Trigger: event.TriggerInitial, OK: ok}
}

// failAttempts processes n failed attempts, each of another event that will be retried.
func (r *rig) failAttempts(n int) {
	r.t.Helper()
	for range n {
		r.outcome(id.ID{}, event.Retrying, "", r.attempt(false))
	}
}

func (r *rig) deliver(e id.ID) { r.t.Helper(); r.outcome(e, event.Delivered, "", r.attempt(true)) }

// advance lets time pass, with a tick every second.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(tickEvery, time.Until(end)))
		must.Do(r.t, r.tick(r.t.Context()))
		if time.Since(r.accountRunAt) < accountEvery {
			continue
		}
		r.accountRunAt = time.Now()
		must.Do(r.t, r.evaluateAccount(r.t.Context()))
	}
}

// notices returns the types of all notices of a rule's alerts; no notifier runs here.
func (r *rig) notices(about rule) (types []string) {
	r.config.mu.Lock()
	defer r.config.mu.Unlock()
	for name, a := range r.config.alerts {
		if len(name) > len(about.messageType()) && name[:len(about.messageType())+1] == about.messageType()+"/" {
			for _, n := range a.Notices {
				types = append(types, n.Type)
			}
		}
	}
	return types
}

func (r *rig) wantNotices(about rule, types ...string) {
	r.t.Helper()
	if got := r.notices(about); !slices.Equal(got, types) {
		r.t.Errorf("%s announced %v, want %v", about.settingName(), got, types)
	}
}

// enableOnly switches all rules off, and on those that alter enables.
func (r *rig) enableOnly(alter func(*alerting.AlertRules)) {
	r.config.set(func(m *fakeConfig) {
		m.settings.Rules = alerting.AlertRules{
			FailureRate:         alerting.AlertRateRule{WindowSeconds: 300, Percent: 50, MinAttempts: 20},
			ConsecutiveFailures: alerting.AlertThresholdRule{Threshold: 20}, VerificationFailed: alerting.AlertThresholdRule{
				Threshold: 10}}
		alter(&m.settings.Rules)
	})
}

// noEvent makes outcome create a new event.
var noEvent id.ID
