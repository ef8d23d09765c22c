package confirm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/api/confirm"
	"github.com/eventrelay/relay/pkg/config"
)

// world is the configuration, the people and the API of a test.
type world struct {
	mu       sync.Mutex // guards the fields below
	acts     map[string]*config.Act
	people   []*config.User
	resource string // answer of GET; empty: 404
	answers  []answer
	posts    []string
	related  string // of the last POST, for the audit log
	endErr   error

	revokedAt time.Time // of the key that asked
}

// answer is the answer to a POST.
type answer struct {
	status int
	body   string
	after  string // Retry-After; empty: 1
}

func (w *world) Act(id string) (*config.Act, config.Presence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.acts[id]; a != nil {
		copied := *a
		return &copied, config.Present
	}
	return nil, config.Unknown
}

func (w *world) Acts(_ string, keep func(*config.Act) bool) (all []*config.Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acts {
		if keep(a) {
			copied := *a
			all = append(all, &copied)
		}
	}
	return all
}

func (w *world) PendingActs(account string) []*config.Act {
	return w.Acts(account, func(a *config.Act) bool { return a.State == config.ActPending })
}

func (w *world) DecideAct(_ context.Context, id, person string, to config.ActState) (*config.Act, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.acts[id]
	if a.StateAt(time.Now()) != config.ActPending {
		return nil, config.ErrActDecided
	}
	a.State, a.DecidedBy, a.DecidedAt, a.Approved = to, person, time.Now(), to == config.ActApproved
	copied := *a
	return &copied, nil
}

func (w *world) EndAct(_ context.Context, id string, to config.ActState, result string) (*config.Act, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endErr != nil {
		return nil, w.endErr
	}
	a := w.acts[id]
	a.State, a.Result = to, result
	copied := *a
	return &copied, nil
}

// requests returns the POSTs so far.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

func (w *world) Users() []*config.User { return w.people }

func (w *world) Keys(string) []*config.Key {
	return []*config.Key{{ID: "key_1", RevokedAt: w.revokedAt}}
}

func (w *world) Call(ctx context.Context, principal *config.Key, method, path string, _ url.Values, body []byte,
	idempotencyKey string) (int, http.Header, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if method == http.MethodGet {
		if w.resource == "" {
			return 404, http.Header{}, []byte(`{"error":{"type":"not_found","message":"gone"}}`)
		}
		return 200, http.Header{}, []byte(w.resource)
	}
	w.related = config.OriginOf(ctx).Related
	w.posts = append(w.posts, fmt.Sprintf("%s %s %s %s %s", principal.ID, method, path, body, idempotencyKey))
	next := w.answers[0]
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	return next.status, http.Header{"Retry-After": {cmp.Or(next.after, "1")}}, []byte(next.body)
}

const finding = `{"object":"finding","id":"fnd_1","version":3,"status":"open"}`

var person = &config.Key{ID: "usr_1", Account: "acc_1", Scope: config.ReadWrite}

// newWorld has one pending act, about a finding.
func newWorld(t *testing.T, answers ...answer) (*world, *confirm.Confirmer, *config.Act) {
	t.Helper()
	a := &config.Act{Meta: config.Meta{ID: "act_1", Account: "acc_1", CreatedAt: time.Now()}, State: config.ActPending,
		Path: "/v1/findings/update", Body: `{"ids":["fnd_1"]}`, Resources: []string{"/v1/findings/fnd_1"}, Key: "key_1",
		Revision: confirm.Revision([]byte(finding))}
	w := &world{acts: map[string]*config.Act{a.ID: a}, resource: finding, answers: answers, people: []*config.User{
		{Meta: config.Meta{ID: "usr_1", Account: "acc_1"}, Email: "ops@example.com", Scope: config.ReadWrite}}}
	c, err := confirm.New(confirm.Deps{Log: slog.New(slog.DiscardHandler), Acts: w, People: w, Keys: w, API: w,
		Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return w, c, c.Act("acc_1", "act_1")
}

const post = `usr_1 POST /v1/findings/update {"ids":["fnd_1"]} act_1`

func TestApproveDoesItOnce(t *testing.T) {
	w, c, a := newWorld(t, answer{status: 200, body: `{"object":"findings_update","updated":1,"failed":[]}`})
	if c.Act("acc_2", "act_1") != nil || len(c.Pending("acc_1")) != 1 {
		t.Error("the act is not found by its account alone")
	}
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActDone || a.DecidedBy != "usr_1" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Approve(t.Context(), person, a); !errors.Is(err, config.ErrActDecided) {
		t.Errorf("approved twice: %v", err)
	}
	if _, err := c.Decline(t.Context(), person, a); !errors.Is(err, config.ErrActDecided) {
		t.Errorf("declined after that: %v", err)
	}
	if recent := c.Recent("acc_1"); len(recent) != 1 || recent[0].State != config.ActDone {
		t.Errorf("recent %+v", recent)
	}
	if len(w.requests()) != 1 || w.requests()[0] != post || len(c.Pending("acc_1")) != 0 || w.related != "act_1" {
		t.Errorf("requests %v, related to %s", w.requests(), w.related)
	}
}

func TestDeclineDoesNothing(t *testing.T) {
	w, c, a := newWorld(t)
	if a, err := c.Decline(t.Context(), person, a); err != nil || a.State != config.ActDeclined || len(w.requests()) != 0 {
		t.Errorf("%+v, %v, %v", a, err, w.requests())
	}
}

// What was changed after the agent asked, or is gone, is not changed.
func TestApproveOfSomethingElse(t *testing.T) {
	for _, now := range []string{`{"object":"finding","version":4,"status":"open"}`, ""} {
		w, c, a := newWorld(t)
		w.resource = now
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActConflict ||
			len(w.requests()) != 0 {
			t.Errorf("%+v, %v, %v", a, err, w.requests())
		}
	}
	w, c, a := newWorld(t)
	w.resource = `[]`
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActConflict {
		t.Errorf("%+v, %v", a, err)
	}
}

// The check of a domain each day is no change of it; the loss of its proof is one.
func TestCheckOfADomainIsNoChange(t *testing.T) {
	const before = `{"object":"domain","id":"dom_1","status":"verified","checked_at":"2026-01-01T00:00:00Z",` +
		`"updated_at":"2026-01-01T00:00:00Z"}`
	const after = `{"object":"domain","id":"dom_1","status":"verified","checked_at":"2026-01-02T00:00:00Z",` +
		`"updated_at":"2026-01-02T00:00:00Z"}`
	for now, want := range map[string]config.ActState{after: config.ActDone,
		strings.Replace(after, "verified", "expired", 1): config.ActConflict} {
		w, c, a := newWorld(t, answer{status: 200, body: `{"object":"scan","id":"scn_1"}`})
		a.Revision, w.resource = confirm.Revision([]byte(before)), now
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != want {
			t.Errorf("%s: %+v, %v", now, a, err)
		}
	}
}

func TestHowActsEnd(t *testing.T) {
	for body, want := range map[string]string{
		`{"run_id":"run_1","queued":1}`:                        "done run_1",
		`{"state":"canary_running","failed":2}`:                "done the job is canary running",
		`{"object":"scan","id":"scn_1","status":"queued"}`:     "done scn_1",
		`{"failed":[{"message":"cannot become open\u202e"}]}`:  "failed cannot become open",
		`{"failed":[{"type":"conflict","message":"read it"}]}`: "conflict read it",
		`{}`: "done ",
	} {
		_, c, a := newWorld(t, answer{status: 200, body: body})
		if a, err := c.Approve(t.Context(), person, a); err != nil || string(a.State)+" "+a.Result != want {
			t.Errorf("%s: %+v, %v", body, a, err)
		}
	}
	_, c, a := newWorld(t, answer{status: 400, body: `{"error":{"type":"invalid_state","message":"the job has ended"}}`})
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActFailed ||
		a.Result != "invalid_state: the job has ended" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A refusal that lasts for hours is not tried again until nobody knows whether it was done.
func TestRefusedForHours(t *testing.T) {
	w, c, a := newWorld(t, answer{429, `{"error":{"type":"rate_limited","message":"at most 5 scans"}}`, "3600"})
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActFailed ||
		a.Result != "rate_limited: at most 5 scans" || len(w.requests()) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// An act whose node was killed, or whose request could not be made, is finished by any node, as the same request.
func TestLeftActsAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`}, answer{status: 429, body: `{}`},
			answer{status: 200, body: `{"run_id":"run_1"}`})
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActApproved {
			t.Errorf("%+v, %v", a, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(40 * time.Second)
		if len(w.requests()) != 1 {
			t.Errorf("tried again too early: %v", w.requests())
		}
		time.Sleep(20 * time.Second)
		if a, _ := w.Act("act_1"); a.State != config.ActDone || a.Result != "run_1" || len(w.requests()) != 3 ||
			w.requests()[2] != post {
			t.Errorf("%+v, %v", a, w.requests())
		}
		stop()
		running.Wait()
	})
}

// What cannot be done for minutes is not done hours later.
func TestLeftActIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`})
		if _, err := c.Approve(t.Context(), person, a); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(time.Hour)
		if a, _ := w.Act("act_1"); a.State != config.ActFailed || len(w.requests()) > 60 {
			t.Errorf("%+v after %d requests", a, len(w.requests()))
		}
		stop()
		running.Wait()
	})
}

// The same change is not approved twice before the store shows the first.
func TestSameChangeIsNotApprovedTwice(t *testing.T) {
	w, c, a := newWorld(t, answer{status: 200, body: `{"run_id":"run_1"}`})
	again := *a
	again.ID = "act_2"
	w.acts["act_2"] = &again
	if _, err := c.Approve(t.Context(), person, a); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Approve(t.Context(), person, c.Act("acc_1", "act_2")); err == nil || len(w.requests()) != 1 {
		t.Errorf("%v, %v", err, w.requests())
	}
	w.acts["act_1"].DecidedAt = time.Now().Add(-2 * time.Minute)
	if a, err := c.Approve(t.Context(), person, c.Act("acc_1", "act_2")); err != nil || a.State != config.ActDone {
		t.Errorf("%+v, %v", a, err)
	}
}

// What a key asked for ends with the key.
func TestActOfARevokedKey(t *testing.T) {
	w, c, a := newWorld(t)
	w.revokedAt = time.Now()
	if len(c.Pending("acc_1")) != 0 {
		t.Error("it waits for a person")
	}
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActDeclined || len(w.requests()) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// Nothing is done as a person who may not do it any more.
func TestLeftActOfARemovedPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`})
		if _, err := c.Approve(t.Context(), person, a); err != nil {
			t.Fatal(err)
		}
		w.people[0].Scope = config.Read // nothing runs yet
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(time.Minute)
		if a, _ := w.Act("act_1"); a.State != config.ActFailed || len(w.requests()) != 1 {
			t.Errorf("%+v, %v", a, w.requests())
		}
		stop()
		running.Wait()
	})
}
