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

	"github.com/eventrelay/relay/features/agents/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// world is the configuration, the people and the API of a test.
type world struct {
	mu       sync.Mutex // guards the fields below
	actions  map[string]*config.Action
	people   []*config.User
	portal   *config.PortalSession // nil: none is open
	resource string                // answer of GET; empty: 404
	asOf     string                // Relay-Data-As-Of of that answer; empty: none
	answers  []answer
	posts    []string
	related  string     // of the last POST, for the audit log
	as       config.Key // of the last POST
	ended    error      // of the context of the last POST
	down     answer     // of GET, if it has a status
	endErr   error
	// refusedBy is who refused an action, for the audit log.
	refusedBy string

	revoked bool          // the key that asked; guarded by mu
	lease   error         // of RefusalOf
	claimed func()        // called when a POST is about to change something
	held    chan struct{} // if set, the reads of resources wait for it
}

// answer is the answer to a POST.
type answer struct {
	status int
	body   string
	after  string // Retry-After; empty: 1
}

func (w *world) Action(id string) (*config.Action, entity.Presence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.actions[id]; a != nil {
		copied := *a
		return &copied, entity.Present
	}
	return nil, entity.Unknown
}

func (w *world) Actions(_ string, keep func(*config.Action) bool) (all []*config.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.actions {
		if keep(a) {
			copied := *a
			all = append(all, &copied)
		}
	}
	return all
}

func (w *world) PendingActions(account string) []*config.Action {
	return w.Actions(account, func(a *config.Action) bool { return a.State == config.ActionPending })
}

func (w *world) DecideAction(_ context.Context, id, person string, to config.ActionState) (*config.Action, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.actions[id]
	if a.StateAt(time.Now()) != config.ActionPending {
		return nil, config.ErrActionDecided
	}
	for _, x := range w.actions {
		if to == config.ActionApproved && x.ID != id && x.Approved && x.Path == a.Path && x.Body == a.Body &&
			time.Since(x.DecidedAt) < config.ActionRepeatAfter {
			return nil, config.ErrActionRepeated
		}
	}
	a.State, a.DecidedBy, a.DecidedAt, a.Approved = to, person, time.Now(), to == config.ActionApproved
	copied := *a
	return &copied, nil
}

func (w *world) RefusalOf(*config.Action) (config.ActionRefusal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return config.ActionRefusal{KeyRevoked: w.revoked}, w.lease
}

func (w *world) RefuseAction(
	ctx context.Context, known *config.Action, person string, why config.ActionRefusal, result string,
) (*config.Action, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.actions[known.ID]
	if a.State != known.State {
		return nil, config.ErrActionDecided
	}
	w.refusedBy = cmp.Or(person, config.OriginOf(ctx).Actor)
	a.State, a.ActionRefusal, a.Result = config.ActionRefused, why, result
	copied := *a
	return &copied, nil
}

func (w *world) EndAction(_ context.Context, id string, to config.ActionState, result string) (*config.Action, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endErr != nil {
		return nil, w.endErr
	}
	a := w.actions[id]
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

func (w *world) Account() *entity.Account { return &entity.Account{ID: "acc_1"} }

func (w *world) PortalSession(id string) (*config.PortalSession, error) {
	if w.portal == nil || w.portal.ID != id {
		return nil, config.ErrSessionEnded
	}
	return w.portal, nil
}

func (w *world) Call(ctx context.Context, principal *config.Key, method, path string, _ url.Values, body []byte,
	idempotencyKey string) (int, http.Header, []byte) {
	if method == http.MethodGet && w.held != nil {
		<-w.held
	}
	if method == http.MethodPost { // as the API does for an action
		if w.claimed != nil {
			w.claimed()
		}
		if _, err := config.SessionCheck(ctx)(); err != nil {
			return 403, http.Header{}, []byte(`{"error":{"type":"insufficient_scope","message":"refused"}}`)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if method == http.MethodGet {
		if w.down.status != 0 {
			return w.down.status, http.Header{"Retry-After": {"1"}}, []byte(w.down.body)
		}
		if w.resource == "" {
			return 404, http.Header{}, []byte(`{"error":{"type":"not_found","message":"gone"}}`)
		}
		header := http.Header{}
		if w.asOf != "" {
			header.Set("Relay-Data-As-Of", w.asOf)
		}
		return 200, header, []byte(w.resource)
	}
	w.related, w.as, w.ended = config.OriginOf(ctx).Related, *principal, ctx.Err()
	w.posts = append(w.posts, fmt.Sprintf("%s %s %s %s %s", principal.ID, method, path, body, idempotencyKey))
	next := w.answers[0]
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	return next.status, http.Header{"Retry-After": {cmp.Or(next.after, "1")}}, []byte(next.body)
}

const finding = `{"object":"finding","id":"fnd_1","version":3,"status":"open"}`

var person = &config.Key{ID: "usr_1", Account: "acc_1", Scope: config.ReadWrite}

// newWorld has one pending action, about a finding.
func newWorld(t *testing.T, answers ...answer) (*world, *confirm.Confirmer, *config.Action) {
	t.Helper()
	a := &config.Action{Meta: entity.Meta{ID: "act_1", Account: "acc_1", CreatedAt: time.Now()},
		State: config.ActionPending, Path: "/v1/findings/update", Body: `{"ids":["fnd_1"]}`,
		Resources: []string{"/v1/findings/fnd_1"}, Key: "key_1",
		Revision: confirm.Revision([]byte(finding))}
	w := &world{actions: map[string]*config.Action{a.ID: a}, resource: finding, answers: answers, people: []*config.User{
		{Meta: entity.Meta{ID: "usr_1", Account: "acc_1"}, Email: "ops@example.com", Scope: config.ReadWrite}}}
	c := must.Get(
		confirm.New(confirm.Deps{Log: slog.New(slog.DiscardHandler), Actions: w, API: w, Now: time.Now}))(t)
	return w, c, c.Action("acc_1", "act_1")
}

const post = `usr_1 POST /v1/findings/update {"ids":["fnd_1"]} act_1`

func TestNewRequiresDependencies(t *testing.T) {
	w := &world{}
	for _, forget := range []func(*confirm.Deps){
		func(d *confirm.Deps) { d.Log = nil }, func(d *confirm.Deps) { d.Actions = nil },
		func(d *confirm.Deps) { d.API = nil },
		func(d *confirm.Deps) { d.Now = nil },
	} {
		deps := confirm.Deps{Log: slog.New(slog.DiscardHandler), Actions: w, API: w, Now: time.Now}
		forget(&deps)
		if _, err := confirm.New(deps); err == nil {
			t.Errorf("%+v are enough", deps)
		}
	}
}

func TestApproveDoesItOnce(t *testing.T) {
	w, c, a := newWorld(t, answer{status: 200, body: `{"object":"findings_update","updated":1,"failed":[]}`})
	if c.Action("acc_2", "act_1") != nil || c.Action("acc_1", "act_2") != nil || len(c.Pending("acc_1")) != 1 {
		t.Error("the act is not found by its account alone")
	}
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionDone || a.DecidedBy != "usr_1" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Approve(t.Context(), person, a); !errors.Is(err, config.ErrActionDecided) {
		t.Errorf("approved twice: %v", err)
	}
	if _, err := c.Decline(t.Context(), person, a); !errors.Is(err, config.ErrActionDecided) {
		t.Errorf("declined after that: %v", err)
	}
	if recent := c.Recent("acc_1"); len(recent) != 1 || recent[0].State != config.ActionDone {
		t.Errorf("recent %+v", recent)
	}
	if len(w.requests()) != 1 || w.requests()[0] != post || len(c.Pending("acc_1")) != 0 || w.related != "act_1" {
		t.Errorf("requests %v, related to %s", w.requests(), w.related)
	}
}

func TestDeclineDoesNothing(t *testing.T) {
	w, c, a := newWorld(t)
	if a, err := c.Decline(t.Context(), person, a); err != nil || a.State != config.ActionDeclined ||
		len(w.requests()) != 0 {
		t.Errorf("%+v, %v, %v", a, err, w.requests())
	}
}

// What was changed after the agent asked, or is gone, is not changed.
func TestApproveOfSomethingElse(t *testing.T) {
	for _, now := range []string{`{"object":"finding","version":4,"status":"open"}`, ""} {
		w, c, a := newWorld(t)
		w.resource = now
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionConflict ||
			len(w.requests()) != 0 {
			t.Errorf("%+v, %v, %v", a, err, w.requests())
		}
	}
	w, c, a := newWorld(t)
	w.resource = `[]`
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionConflict {
		t.Errorf("%+v, %v", a, err)
	}
	is.Equal(t, confirm.Revision([]byte(finding), []byte(`{"error":{}}`)), "", "of a resource that is gone")
}

// What cannot be read is not known to have changed: the action stays pending, and the person sees why.
func TestApproveWhatCannotBeRead(t *testing.T) {
	w, c, a := newWorld(t)
	w.down = answer{status: 503, body: `{"error":{"type":"unavailable","message":"` + strings.Repeat("é", 300) + `"}}`}
	_, err := c.Approve(t.Context(), person, a)
	e, ok := errors.AsType[*web.Error](err)
	if !ok || e.Status != 503 || e.Type != web.Unavailable || e.RetryAfter == 0 ||
		e.Message != strings.Repeat("é", 250)+"…" || len(c.Pending("acc_1")) != 1 || len(w.requests()) != 0 {
		t.Errorf("%v, pending %v, requests %v", err, c.Pending("acc_1"), w.requests())
	}
	w.down.status = 400
	w.down.body = `{"error":{"message":"` + strings.Repeat("e", 501) + `"}}`
	if _, err := c.Approve(t.Context(), person, a); !strings.Contains(err.Error(), strings.Repeat("e", 500)+"…") {
		t.Error(err)
	}
}

// An action that nobody decided on in time is not pending and cannot be approved, whatever state the lease is in.
func TestApproveTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t)
		w.lease = errors.New("is asked")
		time.Sleep(config.ActionLife)
		_, err := c.Approve(t.Context(), person, a)
		if !errors.Is(err, config.ErrActionDecided) || len(c.Pending("acc_1")) != 0 {
			t.Errorf("%v, pending %v", err, c.Pending("acc_1"))
		}
	})
}

// What is approved is done, also if the person's browser goes meanwhile. A session that may make changes approves.
func TestApprovalOutlivesItsRequest(t *testing.T) {
	w, c, a := newWorld(t, answer{status: 200, body: `{"run_id":"run_1"}`})
	ctx, leave := context.WithCancel(t.Context())
	ctx = config.WithSessionCheck(ctx, func() (*config.Key, error) { return person, nil })
	w.claimed = leave
	if a, err := c.Approve(ctx, person, a); err != nil || a.State != config.ActionDone || w.ended != nil {
		t.Errorf("%+v, %v, its context: %v", a, err, w.ended)
	}
}

// While the store is behind, an event may look as if it had no attempt. That is no change of it: an approval waits a
// while, then the action stays pending until the event can be compared. The revision of a finding does not come from
// the store.
func TestApproveWhileTheStoreIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delivered = `{"object":"event","id":"evt_1","status":"delivered","last_attempt_at":"2026-01-01T00:00:00Z"}`
		const behind = `{"object":"event","id":"evt_1","status":"pending"}`
		w, c, a := newWorld(t, answer{status: 200, body: `{"object":"run","run_id":"run_1"}`})
		a.Resources, a.Revision = []string{"/v1/events/evt_1"}, confirm.Revision([]byte(delivered))
		w.resource, w.asOf = behind, "2026-01-01T00:00:00.000Z"
		_, err := c.Approve(t.Context(), person, a)
		if e, ok := errors.AsType[*web.Error](err); !ok || e.Status != 503 || len(c.Pending("acc_1")) != 1 {
			t.Errorf("%v, pending %v", err, c.Pending("acc_1"))
		}
		time.AfterFunc(10*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.resource, w.asOf = delivered, ""
		})
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionDone {
			t.Errorf("%+v, %v", a, err)
		}
		// Whoever loses the right to make changes meanwhile has approved nothing.
		for _, lost := range []func() (*config.Key, error){
			func() (*config.Key, error) { return nil, errors.New("the session has ended") },
			func() (*config.Key, error) { return &config.Key{ID: "usr_1", Scope: config.Read}, nil },
		} {
			w, c, a = newWorld(t)
			ctx := config.WithSessionCheck(t.Context(), lost)
			if _, err := c.Approve(ctx, person, a); err == nil || len(c.Pending("acc_1")) != 1 || len(w.requests()) > 0 {
				t.Errorf("%v, pending %v, requests %q", err, c.Pending("acc_1"), w.requests())
			}
		}
		w, c, a = newWorld(t, answer{status: 200, body: `{"object":"findings_update","updated":1,"failed":[]}`})
		w.asOf = "2026-01-01T00:00:00.000Z"
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionDone {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// The check of a domain each day is no change of it; the loss of its proof is one.
func TestCheckOfADomainIsNoChange(t *testing.T) {
	const before = `{"object":"domain","id":"dom_1","status":"verified","checked_at":"2026-01-01T00:00:00Z",` +
		`"updated_at":"2026-01-01T00:00:00Z"}`
	const after = `{"object":"domain","id":"dom_1","status":"verified","checked_at":"2026-01-02T00:00:00Z",` +
		`"updated_at":"2026-01-02T00:00:00Z"}`
	for now, want := range map[string]config.ActionState{after: config.ActionDone,
		strings.Replace(after, "verified", "expired", 1): config.ActionConflict} {
		w, c, a := newWorld(t, answer{status: 200, body: `{"object":"scan","id":"scn_1"}`})
		a.Revision, w.resource = confirm.Revision([]byte(before)), now
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != want {
			t.Errorf("%s: %+v, %v", now, a, err)
		}
	}
}

// One more failed attempt of an event that is retried is no change of it. Its end is one, as is an attempt after that.
func TestAutomaticRetryIsNoChange(t *testing.T) {
	of := func(status, at string) string {
		return `{"object":"event","status":"` + status + `","last_attempt_at":"2026-01-01T00:0` + at + `:00Z",` +
			`"destinations":{"total":2,"delivered":0,"failed":0,"pending":2}}`
	}
	for _, test := range []struct {
		before, now string
		want        config.ActionState
	}{
		{of("retrying", "1"), of("retrying", "2"), config.ActionDone},
		{of("retrying", "1"), strings.NewReplacer(`"delivered":0`, `"delivered":1`, `"pending":2`, `"pending":1`).
			Replace(of("retrying", "2")), config.ActionConflict}, // another destination has it now
		{of("retrying", "1"), of("delivered", "2"), config.ActionConflict},
		{of("retrying", "1"), of("failed", "2"), config.ActionConflict},
		{of("failed", "1"), of("failed", "2"), config.ActionConflict},
	} {
		w, c, a := newWorld(t, answer{status: 200, body: `{"object":"run","run_id":"run_1"}`})
		a.Resources, a.Revision = []string{"/v1/events/evt_1"}, confirm.Revision([]byte(test.before))
		w.resource = test.now
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != test.want {
			t.Errorf("%s, then %s: %+v, %v", test.before, test.now, a, err)
		}
	}
}

func TestHowActionsEnd(t *testing.T) {
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
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionFailed ||
		a.Result != "invalid_state: the job has ended" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A refusal that lasts for hours is not tried again until nobody knows whether it was done.
func TestRefusedForHours(t *testing.T) {
	w, c, a := newWorld(t, answer{429, `{"error":{"type":"rate_limited","message":"at most 5 scans"}}`, "3600"})
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionFailed ||
		a.Result != "rate_limited: at most 5 scans" || len(w.requests()) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// An action whose node was killed, or whose request could not be made, is finished by any node, as the same request.
func TestLeftActionsAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`}, answer{status: 429, body: `{}`},
			answer{status: 200, body: `{"run_id":"run_1"}`})
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionApproved {
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
		if a, _ := w.Action("act_1"); a.State != config.ActionDone || a.Result != "run_1" || len(w.requests()) != 3 ||
			w.requests()[2] != post ||
			w.as.Account != "acc_1" || w.as.Name != "ops@example.com" || w.as.Scope != config.ReadWrite {
			t.Errorf("%+v, %v as %+v", a, w.requests(), w.as)
		}
		stop()
		running.Wait()
	})
}

// What a person of the portal has approved is finished as that person, while the session lasts.
func TestLeftActionOfAPortalSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`}, answer{status: 200, body: `{"run_id":"run_1"}`})
		w.portal = &config.PortalSession{Meta: entity.Meta{ID: "pls_1", Account: "acc_1"}, Tenant: "t",
			Can: []string{config.PortalReplay}}
		must.Get(c.Approve(t.Context(), w.portal.Principal(config.ReadWrite), a))(t)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(time.Minute)
		if a, _ := w.Action("act_1"); a.State != config.ActionDone || w.as.Tenant != "t" || w.as.ID != "pls_1" {
			t.Errorf("%+v as %+v", a, w.as)
		}
		stop()
		running.Wait()
	})
}

// What cannot be done for minutes is not done hours later.
func TestLeftActionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`})
		must.Get(c.Approve(t.Context(), person, a))(t)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(5*time.Minute + time.Second)
		tries := len(w.requests())
		time.Sleep(time.Hour)
		if a, _ := w.Action("act_1"); a.State != config.ActionFailed || tries > 60 || len(w.requests()) != tries {
			t.Errorf("%+v after %d requests in five minutes and %d in all", a, tries, len(w.requests()))
		}
		stop()
		running.Wait()
	})
}

// Of two equal changes that are approved at the same moment one is made.
func TestSameChangeIsNotMadeTwice(t *testing.T) {
	w, c, a := newWorld(t, answer{status: 200, body: `{"run_id":"run_1"}`})
	other := *a
	other.ID, other.Key = "act_2", "key_2"
	w.actions["act_2"], w.held = &other, make(chan struct{})
	var both sync.WaitGroup
	for _, x := range []*config.Action{a, c.Action("acc_1", "act_2")} {
		both.Go(func() {
			if _, err := c.Approve(t.Context(), person, x); err != nil {
				t.Error(err)
			}
		})
	}
	close(w.held) // both have been found pending and not approved before, or one after the other
	both.Wait()
	done, refused := w.actions["act_1"], w.actions["act_2"]
	if done.State != config.ActionDone {
		done, refused = refused, done
	}
	if done.State != config.ActionDone || refused.State != config.ActionRefused || !refused.SameChange ||
		!strings.Contains(refused.Result, "less than a minute ago") || len(w.requests()) != 1 {
		t.Errorf("%+v and %+v, %v", done, refused, w.requests())
	}
}

// What a key asked for ends with the key: before the approval, ...
func TestKeyIsRevokedBeforeTheApproval(t *testing.T) {
	w, c, a := newWorld(t)
	is.Equal(t, c.Refusal(a), "", "refused")
	w.revoked = true
	if len(c.Pending("acc_1")) != 0 || c.Refusal(a) != "the API key that asked was revoked" {
		t.Errorf("it waits for a person: %s", c.Refusal(a))
	}
	if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionRefused || !a.KeyRevoked ||
		a.Result != "the API key that asked was revoked" || len(w.requests()) != 0 || w.refusedBy != "usr_1" {
		t.Errorf("%+v, %v, %v by %s", a, err, w.requests(), w.refusedBy)
	}
	w, c, a = newWorld(t)
	w.lease = config.ErrLease
	if _, err := c.Approve(t.Context(), person, a); err == nil || w.actions["act_1"].State != config.ActionPending {
		t.Errorf("approved by a node that cannot know: %v", err)
	}
}

// ... between the approval and the change, ...
func TestKeyIsRevokedBeforeTheEffect(t *testing.T) {
	w, c, a := newWorld(t)
	w.claimed = w.revoke
	ctx := config.WithOrigin(t.Context(), config.Origin{Actor: "usr_1"})
	if a, err := c.Approve(ctx, person, a); err != nil || a.State != config.ActionRefused || !a.KeyRevoked ||
		a.Result != "the API key that asked was revoked" || len(w.requests()) != 0 || w.refusedBy != "usr_1" {
		t.Errorf("%+v, %v, %v by %s", a, err, w.requests(), w.refusedBy)
	}
}

func (w *world) revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoked = true
}

// ... and between two tries.
func TestKeyIsRevokedBetweenTwoTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, a := newWorld(t, answer{status: 503, body: `{}`})
		if a, err := c.Approve(t.Context(), person, a); err != nil || a.State != config.ActionApproved {
			t.Fatalf("%+v, %v", a, err)
		}
		w.revoke()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		time.Sleep(time.Minute)
		if a, _ := w.Action("act_1"); a.State != config.ActionRefused || !strings.Contains(a.Result,
			"was revoked; it is not known whether an earlier try") || len(w.requests()) != 1 || w.refusedBy != "confirm" {
			t.Errorf("%+v, %v by %s", a, w.requests(), w.refusedBy)
		}
		stop()
		running.Wait()
	})
}

// Nothing is done as a person who may not do it any more.
func TestLeftActionOfARemovedPerson(t *testing.T) {
	for _, remove := range []func(w *world){
		func(w *world) { w.people[0].Scope = config.Read }, // nothing runs yet
		func(w *world) { w.people[0].ID = "usr_2" },
	} {
		synctest.Test(t, func(t *testing.T) {
			w, c, a := newWorld(t, answer{status: 503, body: `{}`})
			must.Get(c.Approve(t.Context(), person, a))(t)
			remove(w)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = c.Run(ctx) })
			time.Sleep(time.Minute)
			if a, _ := w.Action("act_1"); a.State != config.ActionFailed || len(w.requests()) != 1 {
				t.Errorf("%+v, %v", a, w.requests())
			}
			stop()
			running.Wait()
		})
	}
}
