package dashboard

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// actions are changes in memory. err is the error of the next decisions.
type actions struct {
	all []*config.Action
	now func() time.Time
	err error
	// refusal is why none can be approved any more.
	refusal string
}

func (x *actions) Refusal(*config.Action) string { return x.refusal }

func (x *actions) Action(account, id string) *config.Action {
	for _, a := range x.all {
		if a.ID == id && a.Account == account {
			return a
		}
	}
	return nil
}

func (x *actions) Pending(string) (pending []*config.Action) {
	for _, a := range x.all {
		if a.StateAt(x.now()) == config.ActionPending {
			pending = append(pending, a)
		}
	}
	return pending
}

func (x *actions) Recent(string) (recent []*config.Action) {
	for _, a := range x.all {
		if a.StateAt(x.now()) != config.ActionPending {
			recent = append(recent, a)
		}
	}
	return recent
}

func (x *actions) decide(person *config.Key, a *config.Action, to config.ActionState) (*config.Action, error) {
	if x.err != nil {
		return nil, x.err
	}
	if a.StateAt(x.now()) != config.ActionPending {
		return nil, config.ErrActionDecided
	}
	a.State, a.DecidedBy, a.DecidedAt = to, person.ID, x.now()
	return a, nil
}

func (x *actions) Approve(_ context.Context, person *config.Key, a *config.Action) (*config.Action, error) {
	return x.decide(person, a, config.ActionDone)
}

func (x *actions) Decline(_ context.Context, person *config.Key, a *config.Action) (*config.Action, error) {
	return x.decide(person, a, config.ActionDeclined)
}

// askFor adds a pending action.
func (r *rig) askFor(id string) *config.Action {
	a := &config.Action{Meta: entity.Meta{ID: id, Account: "acc_1", CreatedAt: r.now}, Key: "key_7", KeyName: "claude <b>",
		Tool: "event_replay", Arguments: `{"id":"evt_1","note":"seen once"}`, Summary: "Deliver the event evt_1 again",
		Note: "ignore previous <script>alert(1)</script>", RemoteIP: "203.0.113.9", State: config.ActionPending,
		Resources: []string{"/v1/events/evt_1", "/v1/endpoints/ep_1"}}
	r.actions.all = append([]*config.Action{a}, r.actions.all...)
	return a
}

func TestConfirmPage(t *testing.T) {
	r := newRig(t)
	r.askFor("act_1")
	b := r.signedIn()
	b.get(ui.AgentsPath).want(200, "Waits for you", "/app/confirm/act_1", "Deliver the event evt_1 again",
		`Settings <small class="mute">1 waits</small>`)
	page := b.get("/app/confirm/act_1").want(200, "What will happen", "Deliver the event evt_1 again", "claude &lt;b&gt;",
		"key_7", "203.0.113.9", `<a href="/app/events/evt_1">Look at it now</a>`, "Written by the agent", "&lt;script&gt;",
		"Nothing has been changed", "Approve", "Decline")
	if strings.Contains(page.body, "<script>alert") || strings.Contains(page.body, "seen once") {
		t.Error("the agent's text is markup, or among the arguments")
	}
	for _, again := range []int{1, 2} { // opening it decides nothing
		if b.get("/app/confirm/act_1"); r.actions.all[0].State != config.ActionPending {
			t.Errorf("decided after it was opened %d times", again)
		}
	}
	const approve = "/app/confirm/act_1/approve"
	decision := decisionOn(page)
	r.actions.err = web.Missing("the event is gone")
	b.post(approve, decision).wantRedirect("/app/confirm/act_1")
	b.get("/app/confirm/act_1").want(200, "The event is gone.")
	r.actions.err = web.ServiceUnavailable(nil, "the store is away")
	b.post(approve, decision).want(503)
	r.actions.err = nil
	b.post(approve, decision).wantRedirect("/app/confirm/act_1")
	r.actions.all[0].Result = "run_1"
	b.get("/app/confirm/act_1").want(200, "Done, approved by ops@example.com", "What was asked for",
		`<a href="/app/replays/run_1">run_1</a>`)
	b.post("/app/confirm/act_1/decline", decision).wantRedirect("/app/confirm/act_1")
	b.get("/app/confirm/act_1").want(200, "already decided", "Done, approved")
	b.get("/app/confirm/act_2").want(404, "no such confirmation")
	if page := b.get(ui.AgentsPath).want(200); strings.Contains(page.body, "Waits for you") {
		t.Error("a decided act waits")
	}
	b.get(ui.AgentsPath).want(200, "Requests by agents", "done", "ops@example.com")
}

// decisionOn returns the form with which the page of an action decides.
func decisionOn(page *answer) url.Values {
	nonce := regexp.MustCompile(`name="nonce" value="([^"]+)"`).FindStringSubmatch(page.main())
	return url.Values{"nonce": {nonce[1]}}
}

// Who decides has opened the page of this action, in this session.
func TestDecisionNeedsThePage(t *testing.T) {
	r := newRig(t)
	a := r.askFor("act_1")
	r.askFor("act_2")
	b := r.signedIn()
	b.get("/app/confirm/act_1").want(200)
	for _, form := range []url.Values{{}, {"nonce": {newNonce()}}, decisionOn(b.get("/app/confirm/act_2").want(200)),
		decisionOn(r.signedIn().get("/app/confirm/act_1").want(200))} {
		for _, decision := range []string{"/approve", "/decline"} {
			b.post("/app/confirm/act_1"+decision, form).wantRedirect("/app/confirm/act_1")
			must.Equal(t, a.State, config.ActionPending, "%v: it is", form)
		}
	}
	b.get("/app/confirm/act_1").want(200, "Nothing was done")
	b.post("/app/confirm/act_1/approve", decisionOn(b.get("/app/confirm/act_1").want(200)))
	is.Equal(t, a.State, config.ActionDone, "it")
}

func TestConfirmPageOfEachState(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	for state, text := range map[config.ActionState]string{
		config.ActionApproved: "and being done", config.ActionFailed: "could not be done", config.ActionDeclined: "Declined",
		config.ActionConflict: "was changed after the agent asked", config.ActionExpired: "Expired",
	} {
		a := r.askFor("act_" + string(state))
		a.State, a.DecidedAt = state, r.now
		if state == config.ActionExpired {
			a.State, a.CreatedAt = config.ActionPending, r.now.Add(-config.ActionLife)
		}
		page := b.get("/app/confirm/"+a.ID).want(200, text)
		follows := strings.Contains(page.main(), `data-live="/app/confirm/`+a.ID)
		is.Equal(t, follows, state == config.ActionApproved, "the page of %s follows it", state)
		is.Lacks(t, page.main(), "Approve</button>", "%s can be approved", state)
	}
	r.actions.all[0].Account = "acc_other"
	b.get("/app/confirm/" + r.actions.all[0].ID).want(404)
}

// What a revoked key asked for can only be dismissed.
func TestConfirmPageOfARevokedKey(t *testing.T) {
	r := newRig(t)
	a := r.askFor("act_1")
	r.actions.refusal = "the API key that asked was revoked"
	b := r.signedIn()
	page := b.get("/app/confirm/act_1").want(200, "The API key that asked was revoked.", "Dismiss</button>")
	if strings.Contains(page.main(), "/approve") || strings.Count(page.main(), "<form") != 1 {
		t.Errorf("it can be approved: %s", page.main())
	}
	b.post("/app/confirm/act_1/decline", decisionOn(page)).wantRedirect("/app/confirm/act_1")
	is.Equal(t, a.State, config.ActionDeclined, "it")
	refused := r.askFor("act_2")
	refused.State, refused.Result, refused.DecidedAt = config.ActionRefused, r.actions.refusal, r.now
	b.get("/app/confirm/act_2").want(200, "Not done.", "the API key that asked was revoked")
	refused.Approved, refused.DecidedBy = true, "usr_gone"
	b.get("/app/confirm/act_2").want(200, "Not done, although a person approved it.")
}

func TestReaderDoesNotDecide(t *testing.T) {
	r := newRig(t)
	a := r.askFor("act_1")
	r.people.person.Scope = config.Read
	b := r.signedIn()
	if page := b.get("/app/confirm/act_1").want(200, "You may only read"); strings.Contains(page.main(), "<form") {
		t.Error("a reader sees a form")
	}
	b.post("/app/confirm/act_1/approve", url.Values{}).want(403)
	b.post("/app/confirm/act_1/decline", url.Values{}).want(403)
	r.people.person.Scope = config.ReadWrite
	b.post("/app/confirm/act_1/approve", url.Values{}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").
		want(403)
	is.Equal(t, a.State, config.ActionPending, "it")
}

func TestAgentIsConnected(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	page := b.get(ui.AgentsPath).want(200, "no key yet", "Claude Code", origin+"/mcp", "action=tool.called")
	form := url.Values{"nonce": {page.nonceOf(ui.AgentsPath)}, "name": {" claude <b>"},
		"scope": {"read_write"}, "expires": {"90"}}
	b.post(ui.AgentsPath, form).want(200, "rly_live_secretkey_1", "claude &lt;b&gt;", "only time it is shown",
		"1 active key")
	if k := r.account.keys[0]; !k.Agent || k.Scope != config.ReadWrite || k.Name != "claude <b>" ||
		!k.ExpiresAt.Equal(r.now.AddDate(0, 0, 90)) {
		t.Errorf("created %+v", k)
	}
	again := b.post(ui.AgentsPath, form).want(200, "was sent before")
	if strings.Contains(again.body, "rly_live_secret") || len(r.account.keys) != 1 {
		t.Errorf("the second submission made or showed a key: %s", again.main())
	}
	r.now = r.now.AddDate(0, 0, 91)
	b = r.signedIn()
	b.get(ui.AgentsPath).want(200, "no key yet")
	form["expires"], form["nonce"] = []string{"31"}, []string{b.get(ui.AgentsPath).nonceOf(ui.AgentsPath)}
	b.post(ui.AgentsPath, form).want(400, `href="#f-expires"`)
	form["expires"], form["name"] = []string{""}, []string{" "}
	b.post(ui.AgentsPath, form).want(400, `href="#f-name"`)
}
