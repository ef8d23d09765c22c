package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// endpoints returns the number of endpoints of the account.
func endpoints(t testing.TB) (n int) {
	t.Helper()
	for before, more := int64(0), true; more; {
		var page []*config.Endpoint
		page, more = configuration.Endpoints(configuration.Account().ID, before, 100)
		n += len(page)
		if len(page) > 0 {
			before = page[len(page)-1].Seq
		}
	}
	return n
}

// On every kind of route a repeat gets the first answer byte for byte, secrets included, from another node too.
// Another body is refused, and another path is another request.
func TestRepeatGetsTheFirstAnswer(t *testing.T) {
	c := newClient(t)
	other := newClient(t)
	other.fake.events = c.fake.events
	ep := c.endpoint(nil)
	name, dest := ep.text("id"), ep.text("destinations.0.id")
	sent, drain := c.send(name), c.drain("repeated").text("id")
	domain := c.domain("repeated.example.com").text("id")
	dsn := c.dsn("repeated").text("id")
	c.forgetDomains()
	for i, x := range []struct {
		target, body, secret string
		status               int
	}{
		{"/v1/endpoints", `{"url":"https://a.example/x","name":"<&> ü","unknown":1}`, "destinations.0.signing.secret", 201},
		{"/v1/endpoints", `{"url":"http://a.example"}`, "", 400},
		{"/v1/endpoints", `{`, "", 400},
		{"/v1/endpoints/" + name + "/destinations", `{"url":"https://b.example"}`, "signing.secret", 201},
		{"/v1/endpoints/" + name + "/destinations/" + dest + "/rotate_secret", ``, "signing.secret", 200},
		{"/v1/endpoints/" + name + "/rotate-token", ``, "", 200},
		{"/v1/drains", ``, "", 201},
		{"/v1/domains", `{"hostname":"once.example.com"}`, "", 201},
		{"/v1/domains/" + domain + "/verify", ``, "", 200},
		{"/v1/scans", `{"domain_id":"` + domain + `"}`, "", 201},
		{"/v1/drains/" + drain + "/rotate", ``, "", 200},
		{"/v1/dsns", `{"platform":"server"}`, "", 201},
		{"/v1/dsns/" + dsn + "/rotate", ``, "", 200},
		{"/v1/endpoints/" + name + "/destinations/" + dest + "/purge", `{}`, "", 200},
		{"/v1/events/" + sent + "/replay", ``, "", 200},
		{"/v1/replays", `{"endpoint_id":"` + name + `","since":"` + since() + `"}`, "", 200},
		{"/v1/replays", `{"endpoint_id":"` + name + `","since":"` + since() + `","dry_run":true}`, "", 200},
		{"/v1/replays", `{"endpoint_id":"` + name + `"}`, "", 400},
	} {
		key := fmt.Sprint("alike", i)
		first := c.sendOnce(x.target, key, x.body).want(x.status).replayed(false)
		commands, count := len(c.fake.commands), endpoints(t)
		again := other.sendOnce(x.target, key, x.body).want(x.status).replayed(true)
		if x.status < 400 && string(first.raw) != string(again.raw) ||
			again.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s:\n%sthen\n%s", x.target, first.raw, again.raw)
		}
		if x.status == 400 && (first.text("error.message") != again.text("error.message") ||
			first.get("error.param") != again.get("error.param") ||
			again.text("error.request_id") != again.Header.Get("X-Request-Id")) {
			t.Errorf("%s:\n%sthen\n%s", x.target, first.raw, again.raw)
		}
		if x.secret != "" && !strings.HasPrefix(again.text(x.secret), "whsec_") {
			t.Errorf("%s: no secret in %s", x.target, again.raw)
		}
		if len(c.fake.commands) != commands || len(other.fake.commands) > 0 || endpoints(t) != count {
			t.Errorf("%s: the repeat did something", x.target)
		}
		c.sendOnce(x.target, key, x.body+" ").wantError(400, "idempotency_mismatch", "Idempotency-Key").replayed(false)
	}
	c.sendOnce("/v1/endpoints/"+name+"/destinations", "alike0", `{"url":"https://c.example"}`).want(201).replayed(false)
	c.do("PATCH", "/v1/endpoints/"+name, `{"name":"x"}`, "Idempotency-Key", "alike0").want(200).replayed(false)
	// Path and scope are checked before the key.
	for _, target := range []string{
		"/v1/endpoints/ep_nope/destinations", "/v1/endpoints/" + name + "/destinations/dst_nope/purge",
		"/v1/events/evt_nope/replay"} {
		for range 2 {
			c.sendOnce(target, "nope", `{`).wantError(404, "not_found", "").replayed(false)
		}
	}
	c.as(readKey).sendOnce("/v1/endpoints", "alike0", `{"url":"https://a.example/x"}`).wantError(
		403, "insufficient_scope", "")
	c.sendOnce("/v1/endpoints", "large", `{"url":"`+strings.Repeat("x", 1<<20)+`"}`).wantError(
		400, "payload_too_large", "")
	is.Lacks(t, c.log.String(), "whsec_", "a secret in the log")
}

// What the path names is checked before the body on every route, with an Idempotency-Key too.
func TestUnknownPathComesBeforeTheBody(t *testing.T) {
	c := newClient(t)
	tooLarge := strings.Repeat("x", 2<<20)
	for path, methods := range api.Routes(c.api) {
		if !slices.Contains(methods, "POST") || !strings.Contains(path, "{") {
			continue
		}
		target := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "nope")
		for _, headers := range [][]string{nil, {"Idempotency-Key", "unknown path"}} {
			a := c.do("POST", target, tooLarge, headers...)
			is.Equal(t, a.Status, 404, "%s %q: %s", a.call, headers, a.raw)
		}
	}
}

// Another API key that knows the Idempotency-Key and the body gets the same answer with the secret masked.
func TestSecretsAreRepeatedToTheirKeyOnly(t *testing.T) {
	c := newClient(t)
	text, _, err := configuration.CreateKey(t.Context(), config.NewKey{Name: "other", Scope: config.ReadWrite})
	must.Do(t, err)
	ep := c.endpoint(nil)
	path := "/v1/endpoints/" + ep.text("id") + "/destinations/" + ep.text("destinations.0.id") + "/rotate_secret"
	first := c.sendOnce(path, "rotation", `{}`).want(200).replayed(false)
	secret := first.text("signing.secret")
	other := c.as(text).sendOnce(path, "rotation", `{}`).want(200).replayed(true)
	if got := other.text("signing.secret"); got != "****"+secret[len(secret)-4:] || other.text("id") != first.text("id") {
		t.Errorf("another key reads %s", other.raw)
	}
	if again := c.sendOnce(path, "rotation", `{}`).want(200).replayed(true); string(again.raw) != string(first.raw) {
		t.Errorf("the same key reads %s", again.raw)
	}
	c.tenant("shown-once")
	keys, body := "/v1/tenants/shown-once/keys", `{"name":"x","scope":"read"}`
	made := c.sendOnce(keys, "made", body).want(201).replayed(false).text("key")
	other = c.as(text).sendOnce(keys, "made", body).want(201).replayed(true)
	is.Equal(t, other.text("key"), "****"+made[len(made)-4:])
}

// When there is no room for an answer, the repeat learns that the call took effect.
func TestAnswerWithoutRoomIsReported(t *testing.T) {
	full := &faultyAnswers{Answers: configuration, AfterFunc: func(x *config.Answer) error {
		if x.Answer != "" {
			return config.ErrAnswersFull
		}
		return nil
	}}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Answers = full })
	c.sendOnce("/v1/endpoints", "full memory", `{"url":"https://a.example"}`).want(201).replayed(false)
	again := c.sendOnce("/v1/endpoints", "full memory", `{"url":"https://a.example"}`)
	again.wantError(400, "conflict", "Idempotency-Key")
	is.Has(t, again.text("error.message"), "the status 201", "%s", again.raw)
}

// Parallel calls on two nodes create one endpoint and get the same answer.
func TestParallelCallsWithOneKey(t *testing.T) {
	nodes := []*client{newClient(t), newClient(t)}
	before := endpoints(t)
	var mu sync.Mutex
	created := map[string]int{}
	repeated := 0
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			a := nodes[i%2].sendOnce("/v1/endpoints", "parallel", `{"url":"https://a.example"}`).want(201)
			mu.Lock()
			defer mu.Unlock()
			created[string(a.raw)]++
			if a.Header.Get("Idempotent-Replayed") == "true" {
				repeated++
			}
		})
	}
	all.Wait()
	if len(created) != 1 || endpoints(t) != before+1 || repeated != 15 {
		t.Fatalf("%d answers, %d endpoints, %d repeated", len(created), endpoints(t)-before, repeated)
	}
}

// faultyAnswers is the configuration log with injected errors.
type faultyAnswers struct {
	api.Answers
	ChangeFunc func() error
	AfterFunc  func(changed *config.Answer) error
	ClaimFunc  func() error
}

func (a *faultyAnswers) ChangeAnswer(ctx context.Context, id string, alter func(*config.Answer) error) (
	*config.Answer, error) {
	if a.ChangeFunc != nil {
		if err := a.ChangeFunc(); err != nil {
			return nil, err
		}
	}
	return a.Answers.ChangeAnswer(ctx, id, func(x *config.Answer) error {
		if err := alter(x); err != nil || a.AfterFunc == nil {
			return err
		}
		return a.AfterFunc(x)
	})
}

func (a *faultyAnswers) ClaimAnswer(ctx context.Context, claim *config.Answer, spare bool) (*config.Answer, error) {
	if a.ClaimFunc != nil {
		if err := a.ClaimFunc(); err != nil {
			return nil, err
		}
	}
	return a.Answers.ClaimAnswer(ctx, claim, spare)
}

// newDyingAPI returns an API whose calls do their work and then die before they remember the answer, while dead is
// true; ahead moves its clock.
func newDyingAPI(t *testing.T) (c *client, dead *atomic.Bool, ahead *atomic.Int64) {
	dead, ahead = new(atomic.Bool), new(atomic.Int64)
	a := &faultyAnswers{Answers: configuration}
	a.ChangeFunc = func() error {
		if dead.Load() {
			return errors.New("killed")
		}
		return nil
	}
	return newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Answers = a
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}), dead, ahead
}

// The work was done but no answer remembered. After ClaimLife the repeat finds the created resource and answers with
// it, secrets included; nothing is created twice.
func TestRepeatAfterCrash(t *testing.T) {
	c, dead, ahead := newDyingAPI(t)
	ep := c.endpoint(nil)
	name, dest := ep.text("id"), ep.text("destinations.0.id")
	sent, drain := c.send(name), c.drain("killed").text("id")
	domain := c.domain("killed.example.com").text("id")
	dsn := c.dsn("killed").text("id")
	c.forgetDomains()
	verified := c.verifiedDomain("killed.wires.example.com")
	c.forgetTripwires()
	wire := c.do("POST", "/v1/tripwires", `{"domain_id":"`+verified+`","kind":"key"}`).want(201).text("id")
	equal := func(a, b *answer, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if a.get(path) == nil || a.get(path) != b.get(path) {
				t.Errorf("%s: %s is %v, then %v", a.call, path, a.get(path), b.get(path))
			}
		}
	}
	for i, x := range []struct {
		target, body string
		status       int
		same         []string
	}{
		{"/v1/endpoints", `{"url":"https://a.example"}`, 201,
			[]string{"id", "ingest_url", "created_at", "destinations.0.id", "destinations.0.signing.secret"}},
		{"/v1/endpoints/" + name + "/destinations", `{"url":"https://b.example"}`, 201, []string{"id", "signing.secret"}},
		{"/v1/endpoints/" + name + "/destinations/" + dest + "/rotate_secret", ``, 200, []string{"id", "signing.secret"}},
		{"/v1/endpoints/" + name + "/rotate-token", ``, 200, []string{"id", "ingest_url"}},
		{"/v1/drains", ``, 201, []string{"id", "url", "created_at"}},
		{"/v1/domains", `{"hostname":"crash.example.com"}`, 201, []string{"id", "token", "created_at"}},
		{"/v1/domains/" + domain + "/verify", ``, 200, []string{"id", "status"}},
		{"/v1/scans", `{"domain_id":"` + domain + `"}`, 201, []string{"id", "created_at"}},
		{"/v1/drains/" + drain + "/rotate", ``, 200, []string{"id", "url"}},
		{"/v1/dsns", `{"platform":"browser"}`, 201, []string{"id", "dsn", "created_at"}},
		{"/v1/dsns/" + dsn + "/rotate", ``, 200, []string{"id", "dsn"}},
		// Their secrets are stored nowhere; see TestTripwireSecretsAreShownOnce.
		{"/v1/tripwires", `{"domain_id":"` + verified + `","kind":"file"}`, 201, []string{"id", "token_masked", "issued_at"}},
		{"/v1/tripwires/" + wire + "/rotate", ``, 200, []string{"id", "token_masked", "issued_at"}},
		{"/v1/endpoints/" + name + "/destinations/" + dest + "/purge", ``, 200, []string{"purged_before"}},
		{"/v1/events/" + sent + "/replay", ``, 200, []string{"run_id", "queued", "events"}},
		{"/v1/replays", `{"endpoint_id":"` + name + `","since":"` + since() + `"}`, 200,
			[]string{"run_id", "queued", "events"}},
	} {
		key := fmt.Sprint("killed", i)
		dead.Store(true)
		first := c.sendOnce(x.target, key, x.body).want(x.status)
		is.Equal(t, first.Header.Get("Idempotency-Status"), "unavailable",
			"%s: an answer that is not remembered does not say so", x.target)
		dead.Store(false)
		commands, count := len(c.fake.commands), endpoints(t)
		ahead.Add(int64(31 * time.Second))
		again := c.sendOnce(x.target, key, x.body).want(x.status).replayed(false)
		equal(first, again, x.same...)
		if len(c.fake.commands) != commands || endpoints(t) != count {
			t.Errorf("%s: %d commands more, %d endpoints more", x.target, len(c.fake.commands)-commands, endpoints(t)-count)
		}
		third := c.sendOnce(x.target, key, x.body).want(x.status).replayed(true)
		equal(first, third, x.same...)
	}
	e, _ := configuration.Endpoint(name)
	is.Equal(t, len(e.Destination(dest).Secrets), 2, "secrets after one rotation")
}

// A repeat of an interrupted run gets the run's id and its queued deliveries, and queues nothing, however often it
// comes.
func TestRepeatOfAnInterruptedRun(t *testing.T) {
	c, dead, ahead := newDyingAPI(t)
	ep := c.endpoint(nil).text("id")
	for range 5 {
		c.send(ep)
	}
	body := `{"endpoint_id":"` + ep + `","since":"` + since() + `"}`
	// Killed: the page is in the log, but the run does not count it.
	c.fake.CommandFunc = func(context.Context, *event.Work) error {
		if len(c.fake.commands) == 3 {
			return errors.New("killed")
		}
		return nil
	}
	dead.Store(true)
	run := c.sendOnce("/v1/replays", "interrupted", body).want(500).text("error.run_id")
	dead.Store(false)
	c.fake.CommandFunc = nil
	ahead.Add(int64(31 * time.Second))
	impatient, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer leave()
	c.doCtx(impatient, "POST", "/v1/replays", body, "Idempotency-Key", "interrupted").wantError(
		429, "rate_limited", "Idempotency-Key").replayed(false)
	var all sync.WaitGroup
	all.Go(func() {
		time.Sleep(100 * time.Millisecond) // the next repeat is waiting
		_, err := configuration.ChangeRun(t.Context(), run, func(r *jobs.Run) error {
			r.State, r.Queued = jobs.RunInterrupted, 3
			return nil
		})
		is.OK(t, err)
	})
	defer all.Wait()
	for i := range 3 {
		a := c.sendOnce("/v1/replays", "interrupted", body).want(503).replayed(i > 0)
		if a.text("error.run_id") != run || a.get("error.queued") != 3.0 || len(c.fake.commands) != 3 {
			t.Fatalf("%s, %d commands", a.raw, len(c.fake.commands))
		}
	}
	// An error half-way is remembered like any answer.
	c.fake.CommandFunc = func(context.Context, *event.Work) error {
		return fmt.Errorf("produce: %w", stream.ErrBufferFull)
	}
	first := c.sendOnce("/v1/replays", "half", body).want(503).replayed(false)
	c.fake.CommandFunc = nil
	if again := c.sendOnce("/v1/replays", "half", body).want(503).replayed(true); again.text("error.run_id") != first.text(
		"error.run_id") ||
		again.get("error.queued") != 0.0 || again.text("error.message") != first.text("error.message") ||
		len(c.fake.commands) != 3 {
		t.Errorf("%s\nthen %s", first.raw, again.raw)
	}
	// A call that started no run is tried again.
	c.fake.SelectFunc = func(context.Context, event.Query, func([]event.Match) error) error { return event.ErrUnavailable }
	c.sendOnce("/v1/replays", "behind", body).wantError(503, "unavailable", "").replayed(false)
	c.fake.SelectFunc = nil
	c.sendOnce("/v1/replays", "behind", body).wantCounts(5, 5).replayed(false)
}

// runsInMemory keeps replay runs in memory, for tests in fake time.
type runsInMemory struct {
	api.Runs
	mu  sync.Mutex // guards all
	all map[string]*jobs.Run
}

func (r *runsInMemory) AddRun(context.Context, *jobs.Run) (*jobs.Run, error) {
	return nil, fmt.Errorf("add: %w", config.ErrLevel)
}

func (r *runsInMemory) CancelRun(context.Context, string) (*jobs.Run, error) {
	return nil, config.ErrLevel
}

func (r *runsInMemory) QueueingRuns(since time.Time) (queueing []*jobs.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		if x.State == jobs.RunQueueing && !x.CreatedAt.Before(since) {
			queueing = append(queueing, x)
		}
	}
	return queueing
}

func (r *runsInMemory) ChangeRun(_ context.Context, name string, alter func(*jobs.Run) error) (*jobs.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.all[name]
	if err := alter(&next); err != nil {
		return nil, err
	}
	next.Rev++
	next.UpdatedAt = time.Now()
	r.all[name] = &next
	return &next, nil
}

// A run that was cancelled while its node died ends as cancelled, with the number of deliveries in the log.
func TestSilentCancelledRunIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &runsInMemory{all: map[string]*jobs.Run{}}
		c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Runs = all })
		all.all["run_dead"] = &jobs.Run{Meta: entity.Meta{ID: "run_dead", CreatedAt: time.Now(), UpdatedAt: time.Now()},
			State: jobs.RunQueueing, CancelledAt: time.Now(), Queued: 2, LastQueuedEvent: id.Lowest(time.Now()).Text(id.Event)}
		for i := range 3 {
			d := id.Lowest(time.Now().Add(time.Duration(i+1) * time.Millisecond))
			c.fake.commands = append(c.fake.commands, &event.Work{Event: &event.Event{ID: d}, Dest: "dst_a", Run: "run_dead"})
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.api.Run(ctx) })
		time.Sleep(36 * time.Second)
		synctest.Wait()
		stop()
		wg.Wait()
		if run := all.all["run_dead"]; run.State != jobs.RunCancelled || run.Queued != 5 {
			t.Errorf("%+v", run)
		}
	})
}

// A run of any node without progress for 30 s is interrupted with the number of deliveries in the log; a run with
// progress is not.
func TestSilentRunsAreInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &runsInMemory{all: map[string]*jobs.Run{}}
		c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Runs = all })
		ids := make([]id.ID, 10)
		for i := range ids {
			ids[i] = id.Lowest(time.Now().Add(time.Duration(i) * time.Millisecond))
		}
		for _, name := range []string{"run_dead", "run_slow", "run_new"} {
			all.all[name] = &jobs.Run{
				Meta: entity.Meta{ID: name, CreatedAt: time.Now(), UpdatedAt: time.Now()}, State: jobs.RunQueueing}
			for _, d := range ids {
				c.fake.commands = append(c.fake.commands, &event.Work{Event: &event.Event{ID: d}, Dest: "dst_a", Run: name})
			}
		}
		all.all["run_old"] = &jobs.Run{
			Meta: entity.Meta{ID: "run_old", CreatedAt: time.Now().Add(-48 * time.Hour)}, State: jobs.RunQueueing}
		all.all["run_dead"].Queued, all.all["run_dead"].LastQueuedEvent = 6, ids[5].Text(id.Event)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 { // nodes
			wg.Go(func() { _ = c.api.Run(ctx) })
		}
		began := time.Now()
		f := func(after time.Duration, want map[string]int) {
			t.Helper()
			time.Sleep(time.Until(began.Add(after)))
			synctest.Wait()
			all.mu.Lock()
			defer all.mu.Unlock()
			for name, run := range all.all {
				queued, ended := want[name]
				if (run.State == jobs.RunInterrupted) != ended || ended && run.Queued != queued {
					t.Errorf("after %v %s is %s with %d", after, name, run.State, run.Queued)
				}
			}
		}
		f(29*time.Second, nil)
		if _, err := all.ChangeRun(ctx, "run_slow", func(r *jobs.Run) error {
			r.Queued, r.LastQueuedEvent = 2, ids[1].Text(id.Event)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f(36*time.Second, map[string]int{"run_dead": 10, "run_new": 10, "run_old": 0})
		f(59*time.Second, map[string]int{"run_dead": 10, "run_new": 10, "run_old": 0})
		f(66*time.Second, map[string]int{"run_dead": 10, "run_new": 10, "run_old": 0, "run_slow": 10})
		stop()
		wg.Wait()
	})
}

// On a route whose work could be done twice, the repeat of a call that died gets a conflict.
func TestRepeatOfUnknownOutcomeConflicts(t *testing.T) {
	c, dead, ahead := newDyingAPI(t)
	calls := 0
	handle := api.Remembered(c.api, configuration.Account().ID, "/v1/some/{other}", func() error { calls++; return nil })
	once := func() error {
		t.Helper()
		return handle("unknown")
	}
	dead.Store(true)
	must.Do(t, once())
	dead.Store(false)
	ahead.Store(int64(20 * time.Second))
	if err := once(); err == nil || !strings.Contains(err.Error(), "rate_limited") {
		t.Fatalf("while it may be running: %v", err)
	}
	ahead.Store(int64(31 * time.Second))
	for range 2 {
		if err := once(); err == nil || !strings.Contains(err.Error(), "conflict Idempotency-Key") {
			t.Fatalf("after its life: %v", err)
		}
	}
	must.Equal(t, calls, 1, "calls")
}

// A key expires after a day, whether its record was removed or not.
func TestIdempotencyKeyExpiresAfterADay(t *testing.T) {
	c := newClient(t)
	full := &faultyAnswers{Answers: configuration, ClaimFunc: func() error { return config.ErrAnswersFull }}
	overloaded := newClient(t, func(_ *api.Config, d *api.Deps) { d.Answers = full })
	overloaded.sendOnce("/v1/endpoints", "full", `{"url":"https://a.example"}`).wantError(
		429, "rate_limited", "Idempotency-Key")
	// A call of a tenant goes on without its key: tenants have half of the room, and must not need the rest.
	tenant := newTenant(overloaded, t).client
	if a := tenant.sendOnce("/v1/endpoints", "full", `{"url":"https://a.example"}`).want(201); a.
		Header.Get("Idempotency-Status") != "unavailable" {
		t.Errorf("%v", a.Header)
	}
	gone := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Answers = &faultyAnswers{Answers: configuration, ClaimFunc: func() error { return config.ErrUnavailable }}
	})
	gone.sendOnce("/v1/endpoints", "away", `{"url":"https://a.example"}`).wantError(503, "unavailable", "")
	c.sendOnce("/v1/endpoints", "away", `{"url":"https://a.example"}`).want(201).replayed(false)
}

// During an upgrade neither runs nor keys can be recorded: a single event is replayed all the same, a selection is
// refused, and Idempotency-Status says that the key is not remembered.
func TestReplaysDuringAnUpgrade(t *testing.T) {
	early := fmt.Errorf("claim: %w", config.ErrLevel)
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Runs, d.Answers = &runsInMemory{}, &faultyAnswers{Answers: configuration, ClaimFunc: func() error { return early }}
	})
	ep := c.endpoint(nil).text("id")
	a := c.sendOnce("/v1/events/"+c.send(ep)+"/replay", "early", "").want(200)
	if a.get("queued") != 1.0 || len(c.fake.commands) != 1 || a.Header.Get("Idempotency-Status") != "unavailable" {
		t.Errorf("%s, %d commands, %v", a.raw, len(c.fake.commands), a.Header)
	}
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).wantError(503, "unavailable", "")
	is.Equal(t, len(c.fake.commands), 1, "commands")
}

// Of an answer that is too large to remember, the repeat learns the status.
func TestTooLargeAnswerIsNotRemembered(t *testing.T) {
	c := newClient(t)
	handle := api.RememberedAnswer(c.api, configuration.Account().ID, "/v1/endpoints", func() []byte {
		var text []byte
		for range 12_000 { // incompressible
			text = append(text, id.Random("")...)
		}
		b := must.Get(json.Marshal(string(text)))(t)
		return b
	})
	if status, err := handle("large answer"); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if _, err := handle("large answer"); err == nil || !strings.Contains(err.Error(), "the status 200") {
		t.Fatalf("%v", err)
	}
}

// Keys with the prefix of acts belong to changes that a person has approved: nobody claims one before.
func TestKeysOfActionsAreReserved(t *testing.T) {
	c := newClient(t)
	c.sendOnce("/v1/drains", "act_1", `{"name":"x"}`).wantError(400, "invalid_request", "Idempotency-Key")
	who := person(t, "acts@example.com", config.ReadWrite)
	made := c.call(who, "POST", "/v1/drains", `{"name":"x"}`, "act_1").want(201)
	c.do("DELETE", "/v1/drains/"+made.text("id"), nil).want(200)
}

// The request of an act is checked again after it has its claim: nothing is changed when the check fails, and a repeat
// is a new try.
func TestRequestsOfActionsAreCheckedAgain(t *testing.T) {
	c := newClient(t)
	who := person(t, "checked@example.com", config.ReadWrite)
	var failed error
	ctx := config.WithSessionCheck(t.Context(), func() (*config.Key, error) { return who, failed })
	ep := c.endpoint(nil).text("id")
	evt := c.send(ep)
	failed = &web.Error{Status: 403, Type: web.InsufficientScope, Message: "the key was revoked"}
	c.callCtx(ctx, who, "POST", "/v1/drains", `{"name":"checked"}`, "act_check_1").wantError(403, "insufficient_scope", "")
	failed = nil
	made := c.callCtx(ctx, who, "POST", "/v1/drains", `{"name":"checked"}`, "act_check_1").want(201)
	failed = &web.Error{Status: 403, Type: web.InsufficientScope, Message: "the key was revoked"}
	if again := c.callCtx(ctx, who, "POST", "/v1/drains", `{"name":"checked"}`, "act_check_1").want(201); again.text(
		"id") != made.text("id") {
		t.Errorf("a repeat of what was done: %s", again.raw)
	}
	reader := config.WithSessionCheck(t.Context(), func() (*config.Key, error) {
		return person(t, "checked@example.com", config.Read), nil
	})
	c.callCtx(reader, who, "POST", "/v1/drains", `{"name":"no"}`, "act_check_2").wantError(403, "insufficient_scope", "")
	// A delivery is queued some time after that: it is checked before that once more.
	checks := 0
	second := config.WithSessionCheck(t.Context(), func() (*config.Key, error) {
		if checks++; checks > 1 {
			return nil, failed
		}
		return who, nil
	})
	a := c.callCtx(second, who, "POST", "/v1/events/"+evt+"/replay", `{}`, "act_check_3").want(403)
	if a.get("error.queued") != 0.0 && a.get("error.queued") != nil || checks != 2 {
		t.Errorf("%d checks: %s", checks, a.raw)
	}
	c.do("DELETE", "/v1/drains/"+made.text("id"), nil).want(200)
}

// A parameter that is not a list of alternatives in the document is refused by its name if it is sent twice, an empty
// one too: the client and a proxy might each mean another of the two.
func TestRepeatedParametersAreRefused(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	name := ep.text("id")
	in := strings.NewReplacer("{endpoint_id}", name, "{destination_id}", ep.text("destinations.0.id"),
		"{event_id}", c.send(name), "{recovery_id}", c.recovery(name).text("id"),
		"{tenant_name}", c.tenant("repeated"), "{event_type_name}", c.eventType("repeated"),
		"{issue_id}", c.issue("http_503"),
		"{finding_id}", c.finding())
	document := &contract{source: readYAML(t, documentFile(t))}
	tried := 0
	for path, item := range members(document.source["paths"]) {
		all, _ := at(item, "get", "parameters").([]any)
		for _, p := range all {
			p := document.deref(p)
			kind, name := document.deref(p["schema"])["type"], p["name"].(string)
			if p["in"] != "query" || kind == "array" || kind == "object" {
				continue
			}
			tried++
			for _, value := range []string{"", "2026-01-01"} {
				target := in.Replace(path) + "?" + name + "=&" + name + "=" + value
				c.do("GET", target, nil).wantError(400, "invalid_request", name)
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d parameters were tried", tried)
	}
}
