package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/feed"
	apiframe "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features/catalogue"
	fixtures "github.com/eventrelay/relay/features/fixtures/routes"
	issues "github.com/eventrelay/relay/features/issues/routes"
	"github.com/eventrelay/relay/features/leaks/routes"
	portals "github.com/eventrelay/relay/features/portal/routes"
	"github.com/eventrelay/relay/features/reconcile"
	"github.com/eventrelay/relay/features/reference"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/sdk"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

const (
	writeKey = "bootstrap-key-for-tests"
	readKey  = "bootstrap-read-key-for-tests"
	baseURL  = "https://relay.example.com"
)

// configuration is a real configuration log on an embedded broker. All tests of the package share it and use
// endpoints of their own.
var configuration *config.Control

// topics is where the log of the tests is; watched is the feed on it.
var (
	topics  stream.Config
	watched *feed.Feed
)

func TestMain(m *testing.M) {
	code, err := withConfiguration(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find(kit.FetchManager)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withConfiguration(run func() int) (int, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return 0, err
	}
	defer cluster.Close()
	conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay."}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := stream.Migrate(ctx, conf, 4, 1); err != nil {
		return 0, err
	}
	if err := keepOutbox(ctx, conf); err != nil {
		return 0, err
	}
	configuration, err = config.New(
		config.Config{Node: "test", Partitions: 4, BootstrapKey: writeKey, BootstrapReadKey: readKey},
		config.Deps{Log: slog.New(slog.DiscardHandler), Stream: conf, Keyring: keyring()})
	if err != nil {
		return 0, err
	}
	reader, err := stream.NewReader(conf, "feed")
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	topics = conf
	watched, err = feed.New(feed.Deps{
		Log: slog.New(slog.DiscardHandler), Topic: reader, Store: nothingStored{}, Now: time.Now,
		Retention: 30 * 24 * time.Hour})
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { _ = watched.Run(ctx) })
	wg.Go(func() { failed = configuration.Run(ctx) })
	select {
	case <-configuration.Ready():
	case <-time.After(2 * time.Minute):
		return 0, fmt.Errorf("configuration log is not ready")
	}
	code := run()
	cancel()
	wg.Wait()
	if ctx.Err() == nil {
		return code, failed
	}
	return code, nil
}

// keepOutbox deletes the topic to which the outbox is copied. Copied entries leave the outbox, and the store of these
// tests would not have them.
func keepOutbox(ctx context.Context, conf stream.Config) error {
	client, err := kadm.NewOptClient(kgo.SeedBrokers(conf.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.DeleteTopic(ctx, conf.Prefix+stream.AuditLog)
	return err
}

// nothingStored is a store for a log that was never trimmed.
type nothingStored struct{}

func (nothingStored) EventsByOffset(context.Context, event.OffsetQuery) (event.OffsetPage, error) {
	return event.OffsetPage{}, event.ErrUnavailable
}

func keyring() *seal.Keyring {
	k, err := seal.NewKeyring("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		panic(err)
	}
	return k
}

// fake stands for the log and the store: accepted events can be read. Function fields replace single methods.
type fake struct {
	t testing.TB

	mu       sync.Mutex // guards the fields below
	events   map[id.ID]*event.Event
	details  map[id.ID]func(*event.Detail) // changes the detail of an event
	commands []*event.Work
	queries  []event.Query
	receipts map[id.ID][]*event.Receipt
	entries  []audit.Entry // audit log, newest first
	uses     []string      // ids of keys
	refused  []string      // API keys

	senders    map[string]finding.Received // by drain
	sendersErr error

	findings       []finding.Row // newest first
	occurrences    []finding.Occurrence
	findingQueries []finding.Query
	hitsErr        error // of reads of findings

	recoveries map[string]event.RecoveryCounts // outcomes by job
	items      []event.RecoveryItem            // items of every job, in order

	HeldFunc    func(dests []string) map[string]time.Time
	EventsFunc  func(context.Context, event.Query) (event.Page, error)
	EventFunc   func(context.Context, string, id.ID) (*event.Detail, error)
	AcceptFunc  func(context.Context, *event.Event) error
	CommandFunc func(context.Context, *event.Work) error
	UsageFunc   func(context.Context, event.UsageOf) (*event.Usage, error)

	OverviewFunc func(account string, now time.Time) (event.Overview, error)
	TrafficFunc  func(endpoint string) (event.DestinationTraffic, error)
	LastDaysFunc func() (*event.UsageDays, error)
	PeriodFunc   func(from time.Time) (*event.Usage, error)

	VerifyFunc func(check *leak.DomainCheck) (pause time.Duration)

	ReportFunc func(context.Context, *event.Receipt) (event.ReceiptResult, error)

	SelectFunc    func(context.Context, event.Query, func([]event.Match) error) error
	StoredFunc    func(context.Context, string, []id.ID) ([]event.Stored, error)
	RunCountsFunc func(runs []string) (map[string]event.RecoveryCounts, time.Time, error)
}

func (f *fake) Received(
	_ context.Context, _ string, senders []string, _ time.Time,
) (map[string]finding.Received, error) {
	found := map[string]finding.Received{}
	for _, s := range senders {
		if x, ok := f.senders[s]; ok {
			found[s] = x
		}
	}
	return found, f.sendersErr
}

func (f *fake) Overview(_ context.Context, account string, _ event.TrafficRange, now time.Time) (event.Overview,
	error) {
	if f.OverviewFunc != nil {
		return f.OverviewFunc(account, now)
	}
	return event.Overview{}, nil
}

func (f *fake) DestinationTraffic(_ context.Context, _, endpoint string, _ event.TrafficRange, _ time.Time) (
	event.DestinationTraffic, error) {
	if f.TrafficFunc != nil {
		return f.TrafficFunc(endpoint)
	}
	return event.DestinationTraffic{}, nil
}

func (f *fake) SourceStatus(_ context.Context, name string) string {
	if strings.HasSuffix(name, kinds.ReconcileStatus) {
		return `{"at":"2026-11-20T10:00:00Z","next":"2026-11-20T10:05:00Z","since":"2026-11-19T10:00:00Z","failed":2,
			"last":{"found":3,"stored":1},"total":{"found":9,"stored":7},"error":"api.stripe.com answers 500"}`
	}
	return `{"lag":7,"error":"topic orders not found","at":"2026-11-20T10:00:00Z"}`
}

func (f *fake) HeldUntil(_ context.Context, dests []string) map[string]time.Time {
	if f.HeldFunc != nil {
		return f.HeldFunc(dests)
	}
	return nil
}

// Claim, MarkStored and Release behave like those of a cluster without Redis.
func (f *fake) Claim(context.Context, string, id.ID, string, time.Duration) claim.Claim {
	return claim.Claim{State: claim.Off}
}

func (f *fake) MarkStored(context.Context, string, id.ID, string, time.Duration) error {
	return errors.New("unavailable")
}

func (f *fake) Release(context.Context, string, id.ID) {}

func (f *fake) Accept(ctx context.Context, e *event.Event, _ *config.Endpoint) error {
	if f.AcceptFunc != nil {
		if err := f.AcceptFunc(ctx, e); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events[e.ID] = e
	return nil
}

func (f *fake) AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = f.Accept(ctx, e, ep)
	}
	return errs
}

func (f *fake) Summaries(_ context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := map[id.ID]event.Summary{}
	for _, d := range ids {
		if e := f.events[d]; e != nil && e.Account == account {
			rows[d] = f.detail(e).Summary
		}
	}
	return rows, nil
}

// Commands accepts commands one after the other until CommandFunc refuses one.
func (f *fake) Commands(ctx context.Context, works []*event.Work) (int, error) {
	for i, w := range works {
		if f.CommandFunc != nil {
			if err := f.CommandFunc(ctx, w); err != nil {
				return i, err
			}
		}
		f.mu.Lock()
		f.commands = append(f.commands, w)
		f.mu.Unlock()
	}
	return len(works), nil
}

func (f *fake) EventEndpoint(_ context.Context, account string, d id.ID) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.events[d]; e != nil && e.Account == account {
		return e.Endpoint, nil
	}
	return "", event.ErrNotFound
}

func (f *fake) Period(_ context.Context, _ event.UsageOf, from time.Time) (*event.Usage, error) {
	if f.PeriodFunc != nil {
		return f.PeriodFunc(from)
	}
	return &event.Usage{From: from, To: from.AddDate(0, 1, 0), Figures: event.Figures{AsOf: time.Now()}}, nil
}

func (f *fake) OldestPeriod() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year()-1, now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func (f *fake) LastDays(context.Context, event.UsageOf) (*event.UsageDays, error) {
	if f.LastDaysFunc != nil {
		return f.LastDaysFunc()
	}
	now := time.Now()
	return &event.UsageDays{From: now, To: now, Figures: event.Figures{AsOf: now}}, nil
}

func (f *fake) Usage(ctx context.Context, of event.UsageOf) (*event.Usage, error) {
	if f.UsageFunc != nil {
		return f.UsageFunc(ctx, of)
	}
	now := time.Now()
	return &event.Usage{From: now, To: now, Figures: event.Figures{AsOf: now}}, nil
}

func (f *fake) Report(ctx context.Context, r *event.Receipt) (event.ReceiptResult, error) {
	if f.ReportFunc != nil {
		return f.ReportFunc(ctx, r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	effective, first := r, r.At
	for _, old := range f.receipts[r.Event] {
		if old.State == event.ProcessingDone && r.State != event.ProcessingDone {
			effective = old
		}
	}
	f.receipts[r.Event] = append(f.receipts[r.Event], r)
	s := event.ReceiptResult{Receipt: *effective, Applied: effective == r}
	if s.FirstAt = f.receipts[r.Event][0].At; s.FirstAt.After(first) {
		s.FirstAt = first
	}
	return s, nil
}

func (f *fake) Audit(_ context.Context, q audit.Query) (page audit.Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		switch {
		case !q.Matches(&e):
		case len(page.Rows) == q.Limit:
			page.More = true
		default:
			page.Rows = append(page.Rows, e)
		}
	}
	return page, nil
}

func (f *fake) Outbox(q audit.Query) []audit.Entry { return configuration.Outbox(q) }

// CheckKey implements api.Refusals.
func (f *fake) CheckKey(text string, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, text)
}

func (f *fake) RecordUse(_, key, _ string, from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses = append(f.uses, key+" from "+from.String())
}

func (f *fake) detail(e *event.Event) *event.Detail {
	d := &event.Detail{Event: e}
	status, reason, counts := event.Summarize(e, nil)
	d.Summary = event.Summary{
		ID: e.ID, Account: e.Account, Endpoint: e.Endpoint, Type: e.Type, Status: status, Reason: reason, Source: e.Source,
		Proof: e.Proof(), Counts: counts, Processing: event.ProcessingNone, Size: len(e.Body),
	}
	for _, dest := range e.Dests {
		d.Deliveries = append(d.Deliveries, event.Delivery{Destination: dest, Status: event.Pending, Reason: event.Queued})
	}
	if set := f.details[e.ID]; set != nil {
		set(d)
	}
	return d
}

func (f *fake) Event(ctx context.Context, account string, d id.ID) (*event.Detail, error) {
	if f.EventFunc != nil {
		return f.EventFunc(ctx, account, d)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.events[d]; e != nil && e.Account == account {
		return f.detail(e), nil
	}
	return nil, event.ErrNotFound
}

func (f *fake) Events(ctx context.Context, q event.Query) (event.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, q)
	if f.EventsFunc != nil {
		return f.EventsFunc(ctx, q)
	}
	var page event.Page
	ids := make([]id.ID, 0, len(f.events))
	for d := range f.events {
		ids = append(ids, d)
	}
	slices.SortFunc(ids, func(a, b id.ID) int { return cmp.Compare(b.String(), a.String()) })
	for _, d := range ids {
		s := f.detail(f.events[d]).Summary
		switch {
		case len(q.Endpoints) > 0 && !slices.Contains(q.Endpoints, s.Endpoint):
		case len(q.Statuses) > 0 && !slices.Contains(q.Statuses, s.Status):
		case !q.Before.IsZero() && d.String() >= q.Before.String():
		case len(page.Rows) == q.Limit:
			page.More = true
			return page, nil
		default:
			page.Rows = append(page.Rows, s)
		}
	}
	return page, nil
}

func (f *fake) Attempts(_ context.Context, account string, ev, before id.ID, limit int) (event.AttemptPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.events[ev]
	if e == nil || e.Account != account {
		return event.AttemptPage{}, event.ErrNotFound
	}
	var page event.AttemptPage
	for _, row := range slices.Backward(f.detail(e).Attempts) {
		switch {
		case !before.IsZero() && row.ID.String() >= before.String():
		case len(page.Rows) == limit:
			page.More = true
			return page, nil
		default:
			page.Rows = append(page.Rows, row)
		}
	}
	return page, nil
}

// Verify finds the proof of a domain, unless VerifyFunc says something else.
func (f *fake) Verify(ctx context.Context, d *leak.Domain, method string) (*leak.Domain, time.Duration, error) {
	check := leak.DomainCheck{At: time.Now(), Method: method}
	if f.VerifyFunc != nil {
		var pause time.Duration
		if pause = f.VerifyFunc(&check); pause > 0 {
			return nil, pause, nil
		}
	}
	after, err := configuration.RecordDomainCheck(ctx, d.ID, check)
	return after, 0, err
}

func withRates(read, write, send int) func(*api.Config, *api.Deps) {
	return func(cfg *api.Config, _ *api.Deps) { cfg.RateRead, cfg.RateWrite, cfg.RateSend = read, write, send }
}

func withConfig(c apiframe.Configuration) func(*api.Config, *api.Deps) {
	return func(_ *api.Config, deps *api.Deps) { deps.Config = c }
}

// client calls an API under test with one key.
type client struct {
	t    testing.TB
	api  *api.API
	fake *fake
	log  *bytes.Buffer
	key  string
}

// areas are those of features, with f in place of what the configuration does not have.
func areas(f *fake) []func(*apiframe.Core) apiframe.Area {
	return []func(*apiframe.Core) apiframe.Area{reference.Area, func(c *apiframe.Core) apiframe.Area {
		return catalogue.Area(c, configuration, reference.Catalogue)
	}, func(c *apiframe.Core) apiframe.Area {
		area := routes.New(c, &routes.Deps{Control: configuration, Senders: f, Domains: f, Findings: f})
		return apiframe.Area{Routes: area.Routes(), AddNeeds: area.AddNeeds, Document: routes.Document()}
	}, reconcile.API, func(c *apiframe.Core) apiframe.Area {
		return apiframe.Area{Routes: fixtures.Routes(c, configuration.CreateFixture), Document: fixtures.Document(),
			Tools: []sdk.Tool{sdk.FixtureRunner()}}
	}, issues.Area, func(c *apiframe.Core) apiframe.Area { return portals.Area(c, configuration) }}
}

// newClient builds an API on the shared configuration; each setup may change its dependencies.
func newClient(t testing.TB, setup ...func(*api.Config, *api.Deps)) *client {
	t.Helper()
	f := &fake{t: t, events: map[id.ID]*event.Event{}, details: map[id.ID]func(*event.Detail){},
		receipts: map[id.ID][]*event.Receipt{}}
	log := &bytes.Buffer{}
	cfg := api.Config{BaseURL: baseURL, MaxBody: 1 << 20, RetentionDays: 30, Version: "test",
		AllowedHosts: []string{"Example.com"}, PreparationWait: 50 * time.Millisecond} // no test here prepares jobs
	deps := api.Deps{
		Services: apiframe.Services{
			Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Config: configuration,
			Keyring: keyring(), Events: f, Erasures: configuration, LimiterStore: f, Answers: configuration,
			IDs: id.NewGenerator(nil),
		},
		EventsDeps: api.EventsDeps{
			Accept: f, Receipts: f, Feed: watched, Explain: explainStored,
			Sample: func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error) {
				return &event.Event{
					ID: d, Account: ep.Account, Endpoint: ep.ID, Source: event.SourceTest, Verdict: event.VerdictUnverified,
					Type:   cmp.Or(kind, provider),
					Method: "POST", Dests: ep.EnabledDestinations(), Body: []byte(`{"id":"x","data":{"a":1},"b":2}`),
				}, nil
			},
		},
		JobsDeps: api.JobsDeps{
			Runs: configuration, Selection: selector{f}, Commands: f, Recovery: f,
			Reverify: func(*config.Endpoint, *event.Event) (signed [32]byte, reason event.Reason, err error) {
				return signed, event.SignatureMismatch, nil
			},
		},
		AccountDeps: api.AccountDeps{Notifier: f, Usage: f, Audit: f},
		EndpointsDeps: api.EndpointsDeps{
			Traffic: f, Pulls: &fakePulls{},
			ValidateVerification: func(config.Verification, []string) (string, string) { return "", "" },
		},
		Areas: areas(f), KeyUses: f, Refusals: f, Now: time.Now,
	}
	for _, s := range setup {
		s(&cfg, &deps)
	}
	if deps.Limits == nil {
		limits := must.Get(limit.New(limit.DefaultConfig(), limit.Deps{Log: deps.Log, Now: deps.Now}))(t)
		deps.Limits = limits
	}
	a := must.Get(api.New(cfg, deps))(t)
	return &client{t: t, api: a, fake: f, log: log, key: writeKey}
}

// explainStored explains the signature of an event as package ingest does.
func explainStored(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error) {
	conf := verify.Config{Type: ep.Verification.Type, Tolerance: verify.DefaultTolerance}
	for _, sealed := range ep.Verification.Secrets {
		secret, err := keyring().OpenString(ep.ID, seal.FieldVerification, sealed)
		if err != nil {
			return nil, err
		}
		conf.Secrets = append(conf.Secrets, secret)
	}
	token, err := keyring().OpenString(ep.ID, seal.FieldToken, ep.Token)
	req := verify.Request{URL: baseURL + "/in/" + token + "?" + e.Query, Header: http.Header{}, Body: e.Body,
		Now: e.ReceivedAt()}
	for _, f := range e.Header {
		req.Header.Add(f.Name, f.Value)
	}
	return verify.Explain(conf, req), err
}

func (c *client) as(key string) *client {
	other := *c
	other.key = key
	return &other
}

// answer is a response with its decoded JSON.
type answer struct {
	t      testing.TB
	call   string
	Status int
	Header http.Header
	Body   map[string]any
	raw    []byte
}

// do sends a request. body is a text, nil, or a value that is encoded as JSON. headers are name-value pairs.
func (c *client) do(method, target string, body any, headers ...string) *answer {
	c.t.Helper()
	return c.doCtx(c.t.Context(), method, target, body, headers...)
}

func (c *client) doCtx(ctx context.Context, method, target string, body any, headers ...string) *answer {
	c.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		text := must.Get(json.Marshal(b))(c.t)
		reader = bytes.NewReader(text)
	}
	r := httptest.NewRequestWithContext(ctx, method, target, reader)
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return c.serve(r)
}

// awaitLease waits until the configuration that all tests share is confirmed: a busy machine can take longer for that
// than a lease lasts, and keys are then answered 503.
func awaitLease() {
	for {
		if _, err := configuration.Authenticate(writeKey); !errors.Is(err, config.ErrLease) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serve answers a prepared request.
func (c *client) serve(r *http.Request) *answer {
	c.t.Helper()
	awaitLease()
	w := httptest.NewRecorder()
	c.api.Handler().ServeHTTP(w, r)
	a := &answer{t: c.t, call: r.Method + " " + r.URL.Path, Status: w.Code, Header: w.Header(), raw: w.Body.Bytes()}
	if n := w.Header().Get("Content-Length"); n != "" && n != strconv.Itoa(len(a.raw)) &&
		r.Method != http.MethodHead && w.Code != http.StatusNotModified {
		c.t.Errorf("%s: %d bytes with Content-Length %s, which ends the connection", a.call, len(a.raw), n)
	}
	if w.Header().Get("Content-Type") == "application/json" {
		must.Do(c.t, json.Unmarshal(a.raw, &a.Body), "%s: answer is not JSON: %s", a.call, a.raw)
	}
	a.described(r.Method, r.URL.EscapedPath())
	return a
}

// want ends the test unless the answer has the status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	must.Equal(a.t, a.Status, status, "%s: status: %s", a.call, a.raw)
	return a
}

// wantError ends the test unless the answer is an error of that status and type that names the parameter.
func (a *answer) wantError(status int, kind, param string) *answer {
	a.t.Helper()
	a.want(status)
	if got := a.get("error.type"); got != kind {
		a.t.Fatalf("%s: type %v, want %s\n%s", a.call, got, kind, a.raw)
	}
	if got, _ := a.get("error.param").(string); got != param {
		a.t.Fatalf("%s: param %q, want %q\n%s", a.call, got, param, a.raw)
	}
	return a
}

// get follows a dotted path; numbers are indexes.
func (a *answer) get(path string) any {
	a.t.Helper()
	var v any = a.Body
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func (a *answer) text(path string) string {
	a.t.Helper()
	s, ok := a.get(path).(string)
	if !ok {
		a.t.Fatalf("%s: %s is no text\n%s", a.call, path, a.raw)
	}
	return s
}

// endpoint creates an endpoint with the given members, and with a destination unless they contain one.
func (c *client) endpoint(members map[string]any) *answer {
	c.t.Helper()
	if members == nil {
		members = map[string]any{}
	}
	if _, ok := members["destinations"]; !ok {
		members["destinations"] = []any{map[string]any{"url": "https://example.com/h"}}
	}
	return c.do("POST", "/v1/endpoints", members).want(201)
}

// send sends an event and returns its id.
func (c *client) send(endpoint string) string {
	c.t.Helper()
	return c.do("POST", "/v1/endpoints/"+endpoint+"/events", `{"type":"a.b","data":{}}`).want(202).text("id")
}

// equalEndpoints compares answers without the members that change with every write or appear only once.
func equalEndpoints(t *testing.T, a, b *answer) {
	t.Helper()
	strip := func(v any) any {
		out := map[string]any{}
		for k, v := range v.(map[string]any) {
			out[k] = v
		}
		delete(out, "updated_at")
		delete(out, "warnings")
		for _, d := range out["destinations"].([]any) {
			delete(d.(map[string]any)["signing"].(map[string]any), "secret")
		}
		return out
	}
	is.Equal(t, gocmp.Diff(strip(a.Body), strip(b.Body)), "", "%s, then %s", a.call, b.call)
}

type ctxT = context.Context

// fakeDNS dials a name server that answers every question for an IPv4 address with addr, and has no other records
// (RFC 1035, 4).
func fakeDNS(addr netip.Addr) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerDNS(theirs, addr)
		return ours, nil
	}
}

// answerDNS speaks DNS over a stream: two bytes of length before each message.
func answerDNS(conn net.Conn, addr netip.Addr) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		end := 12
		for question[end] != 0 {
			end += int(question[end]) + 1
		}
		end += 5
		answer := append(bytes.Clone(question[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		answer = append(answer, question[12:end]...)
		if question[end-3] == 1 { // type A
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
			answer = append(answer, addr.AsSlice()...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// CanMail says that there is a mail server.
func (f *fake) CanMail() bool { return true }

// Send accepts every message.
func (f *fake) Send(context.Context, notify.Channel, notify.Message) notify.Result {
	return notify.Result{OK: true}
}
