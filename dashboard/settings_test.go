package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A bootstrap key that the settings of this installation do not name is not counted among those that work. It can be
// revoked, because it works again when they name it.
func TestKeyThatIsNotSetIsNotActive(t *testing.T) {
	r := newRig(t)
	r.account.keys = []*config.Key{{ID: "key_1", Name: "bootstrap", Bootstrap: true}}
	r.signedIn().get(ui.KeysPath).want(200, "not in the settings: gets 401", "0 active", `id="revoke-key_1"`)
}

// settings are the API keys and the people of a dashboard in memory. Its person usr_1 is that of people.
type settings struct {
	people  *people
	others  []*config.User
	keys    []*config.Key
	nonces  map[string]*config.Key
	uses    map[string]audit.Use
	usesErr error
	asked   []string // the keys whose uses were asked for last
	checks  func() ([]ui.Check, error)
	resets  int
	err     error // of CreateKey and AddUser, unless it is nil
}

func (a *settings) Keys(string) []*config.Key { return a.keys }

func (a *settings) IsSet(k *config.Key) bool { return !k.Bootstrap }

func (a *settings) CreateKey(_ context.Context, n config.NewKey) (string, *config.Key, error) {
	if n.Name == "" {
		return "", nil, &entity.InvalidError{Param: "name", Message: "must have 1 to 100 printable characters"}
	}
	if k := a.nonces[n.Nonce]; k != nil {
		return "", k, config.ErrAlreadyCreated
	}
	if a.err != nil {
		return "", nil, a.err
	}
	k := &config.Key{ID: fmt.Sprint("key_", len(a.keys)+1), Name: n.Name, Scope: n.Scope, Agent: n.Agent,
		Last4: "zzzz", ExpiresAt: n.ExpiresAt}
	a.keys, a.nonces[n.Nonce] = append([]*config.Key{k}, a.keys...), k
	return "rly_live_secret" + k.ID, k, nil
}

func (a *settings) RevokeKey(_ context.Context, key string) error {
	for _, k := range a.keys {
		if k.ID == key {
			k.RevokedAt = time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC)
		}
	}
	return nil
}

func (a *settings) KeyUses(_ context.Context, _ string, keys []string) (map[string]audit.Use, error) {
	a.asked = keys
	return a.uses, a.usesErr
}

func (a *settings) Users() []*config.User { return append(a.others, a.people.current()) }

func (a *settings) AddUser(_ context.Context, email string, scope config.Scope) (string, *config.User, error) {
	for _, u := range a.Users() {
		if u.Email == email {
			return "", nil, config.ErrConflict
		}
	}
	if a.err != nil {
		return "", nil, a.err
	}
	u := &config.User{Meta: entity.Meta{ID: fmt.Sprint("usr_", len(a.others)+2), Rev: 1}, Email: email, Scope: scope,
		Link: &config.Link{Expires: time.Date(2026, 8, 21, 22, 34, 36, 0, time.UTC)}}
	a.others = append(a.others, u)
	return "invitation-token", u, nil
}

func (a *settings) ResetUser(_ context.Context, userID string, rev int64) (string, *config.User, error) {
	for _, u := range a.Users() {
		if u.ID == userID {
			if u.Rev != rev {
				return "", nil, config.ErrConflict
			}
			u.Rev++
			a.resets++
			return fmt.Sprint("reset-token-", a.resets), u, nil
		}
	}
	return "", nil, config.ErrNotFound
}

func (a *settings) SetUserScope(_ context.Context, userID string, scope config.Scope, rev int64) (*config.User,
	error) {
	writers := 0
	for _, u := range a.Users() {
		if u.Scope == config.ReadWrite && u.ID != userID {
			writers++
		}
	}
	if writers == 0 && scope == config.Read {
		return nil, config.ErrLastWriter
	}
	for _, u := range a.others {
		if u.ID == userID && u.Rev != rev {
			return nil, config.ErrConflict
		}
		if u.ID == userID {
			u.Scope = scope
			u.Rev++
			return u, nil
		}
	}
	return nil, nil
}

func (a *settings) RemoveUser(_ context.Context, userID string) error {
	if userID == a.people.person.ID {
		return config.ErrLastWriter
	}
	a.others = nil
	return nil
}

// nonceOf returns the nonce of the form that posts to action, and versionOf its version.
func (a *answer) nonceOf(action string) string { a.t.Helper(); return a.hidden(action, "nonce") }

func (a *answer) versionOf(action string) string { a.t.Helper(); return a.hidden(action, "version") }

// hidden returns the value of a hidden field of the form that posts to action.
func (a *answer) hidden(action, name string) string {
	a.t.Helper()
	_, form, ok := strings.Cut(a.body, `action="`+action+`"`)
	_, value, found := strings.Cut(form, `name="`+name+`" value="`)
	if !ok || !found {
		a.t.Fatalf("no form leads to %s: %s", action, a.main())
	}
	value, _, _ = strings.Cut(value, `"`)
	return value
}

func TestKeyIsMadeShownOnceAndRevoked(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	form := url.Values{"nonce": {b.get(ui.KeysPath).want(200, "No key yet").nonceOf(ui.KeysPath)},
		"name": {"orders <b>"}, "scope": {"read"}, "expires": {"30"}}
	made := b.post(ui.KeysPath, form).want(200, "rly_live_secretkey_1", "orders &lt;b&gt;", "only time it is shown")
	is.Equal(t, made.header.Get("Cache-Control"), "no-store", "a page with a secret may be cached")
	if k := r.account.keys[0]; k.Scope != config.Read || !k.ExpiresAt.Equal(r.now.AddDate(0, 0, 30)) {
		t.Errorf("created %+v", k)
	}

	again := b.post(ui.KeysPath, form).want(200, "was sent before")
	if strings.Contains(again.body, "rly_live_secret") || len(r.account.keys) != 1 {
		t.Errorf("the second submission made or showed a key: %s", again.main())
	}
	if list := b.get(ui.KeysPath).want(200, "key_1", "zzzz", "1 active"); strings.Contains(list.body,
		"rly_live_secret") {
		t.Error("the list shows the key")
	}

	revoke := ui.KeysPath + "/key_1/revoke"
	b.post(revoke, url.Values{"confirm": {"orders"}}).want(400, "type its name")
	if !r.account.keys[0].RevokedAt.IsZero() {
		t.Error("revoked without the name")
	}
	b.post(revoke, url.Values{"confirm": {"orders <b>"}}).wantRedirect(ui.KeysPath)
	b.get(ui.KeysPath).want(200, "Revoked.", "0 active")
	r.people.person.Scope = config.Read
	b.get(ui.KeysPath).want(200, "revoked <time")
	r.people.person.Scope = config.ReadWrite
	b.post(ui.KeysPath+"/key_9/revoke", url.Values{"confirm": {"x"}}).want(404)
}

func TestKeyFormSaysWhatToChange(t *testing.T) {
	b := newRig(t).signedIn()
	nonce := b.get(ui.KeysPath).nonceOf(ui.KeysPath)
	b.post(ui.KeysPath, url.Values{"nonce": {nonce}, "scope": {"read"}, "name": {" "}}).want(400, `href="#f-name"`,
		"Must have 1 to 100")
	b.post(ui.KeysPath, url.Values{"nonce": {nonce}, "scope": {"read"}, "name": {"a"}, "expires": {"31"}}).want(400,
		`href="#f-expires"`)
	b.post(ui.KeysPath, url.Values{"scope": {"read"}, "name": {"a"}}).want(400, "incomplete")
}

// A key may have to be revoked just while the store is unavailable.
func TestKeysAreListedWithoutTheStore(t *testing.T) {
	r := newRig(t)
	r.account.keys = []*config.Key{{ID: "key_1", Name: "orders", Scope: config.ReadWrite}}
	r.account.uses = map[string]audit.Use{"key_1": {At: r.now.Add(-3 * time.Minute), Node: "n1",
		RemoteIP: netip.MustParseAddr("203.0.113.9")}}
	b := r.signedIn()
	b.get(ui.KeysPath).want(200, "3\u00a0min ago", "203.0.113.9", "n1")
	r.account.uses, r.account.usesErr = nil, errors.New("no store")
	b.get(ui.KeysPath).want(200, "cannot be read at the moment", "unknown", "key_1/revoke")
}

// The list marks keys that a web page has sent, and no others.
func TestKeysOfWebPagesAreMarked(t *testing.T) {
	r := newRig(t)
	r.account.keys = []*config.Key{{ID: "key_1", Name: "orders"}, {ID: "key_2", Name: "shop", UsedFromBrowser: true}}
	b := r.signedIn()
	page := b.get(ui.KeysPath).want(200, "a web page has sent it")
	if n := strings.Count(page.body, "a web page has sent it"); n != 1 {
		t.Errorf("%d of two keys are marked, want one", n)
	}
	r.account.keys[1].UsedFromBrowser = false
	if page := b.get(ui.KeysPath).want(200); strings.Contains(page.body, "a web page has sent it") {
		t.Error("a key is marked that no web page has sent")
	}
}

// However many there are, a page shows fifty, asks the store for those alone, and links to the pages beside it.
func TestListsOfSettingsHavePages(t *testing.T) {
	r := newRig(t)
	for i := range 120 {
		k := &config.Key{ID: fmt.Sprintf("key_%03d", i), Name: "orders", Scope: config.Read}
		if i < 10 {
			k.RevokedAt = r.now
		}
		r.account.keys = append(r.account.keys, k)
		r.account.others = append(r.account.others, &config.User{Meta: entity.Meta{ID: fmt.Sprintf("usr_%03d", i+10)},
			Email: fmt.Sprintf("p%03d@example.com", i), Scope: config.ReadWrite})
	}
	b := r.signedIn()
	f := func(path, row string, want int, texts ...string) *answer {
		t.Helper()
		a := b.get(path).want(200, texts...)
		is.Equal(t, strings.Count(a.main(), row), want, "%s has … rows", path)
		return a
	}
	const keyRow, personRow = "ends in <code>", `popovertarget="person-`
	first := f(ui.KeysPath, keyRow, 50, "key_010", "key_059", "110 active", "1–50 of 120",
		`href="/app/settings/keys?page=2"`)
	if strings.Contains(first.body, "key_000") || strings.Contains(first.body, "Previous page") {
		t.Error("the first page has a revoked key, or a page before it")
	}
	if len(r.account.asked) != 50 || r.account.asked[0] != "key_010" {
		t.Errorf("the uses of %d keys were asked for", len(r.account.asked))
	}
	f(ui.KeysPath+"?page=2", keyRow, 50, "key_060", "key_109", `href="/app/settings/keys?page=1"`,
		`href="/app/settings/keys?page=3"`)
	last := f(ui.KeysPath+"?page=3", keyRow, 20, "key_110", "key_000", "101–120 of 120",
		`href="/app/settings/keys?page=2"`)
	is.Lacks(t, last.body, "Next page", "there is a page after the last one")
	for _, beyond := range []string{"4", "999999999999", "-1", "x", ""} {
		b.get(ui.KeysPath+"?page="+beyond).want(200, "of 120")
	}
	f("/app/settings/people", personRow, 100, "121 may sign in", "1–50 of 121") // two controls each
	f("/app/settings/people"+"?page=3", personRow, 42, "p119@example.com", "101–121 of 121")
}

func TestPersonIsInvitedResetAndRemoved(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	form := url.Values{"nonce": {b.get("/app/settings/people").want(200, "ops@example.com",
		"you").nonceOf("/app/settings/people")},
		"email": {"new@example.com"}, "scope": {"read"}}
	b.post("/app/settings/people", form).want(200, origin+"/app/link/"+"invitation-token",
		"Send this link to new@example.com")
	if again := b.post("/app/settings/people", form).want(400, "belongs to a person"); strings.Contains(again.body,
		"-token") {
		t.Error("the second submission shows a link")
	}

	reset := url.Values{"version": {"1"}}
	b.post("/app/settings/people"+"/usr_2/reset", reset).want(200, "reset-token-1")
	b.post("/app/settings/people"+"/usr_2/reset", reset).want(400, "Nothing was done")
	is.Equal(t, r.account.resets, 1, "resets")
	b.post("/app/settings/people"+"/usr_2/reset", url.Values{"version": {"x"}}).want(400)

	b.post("/app/settings/people"+"/usr_2/remove", url.Values{"confirm": {"old@example.com"}}).want(400,
		"Nobody was removed")
	b.post("/app/settings/people"+"/usr_2/remove",
		url.Values{"confirm": {"New@example.com"}}).wantRedirect("/app/settings/people")
	is.Equal(t, len(r.account.others), 0, "the person was not removed")
	b.post("/app/settings/people"+"/usr_2/remove", url.Values{"confirm": {"new@example.com"}}).want(404)
}

// A form for the scope that was drawn before another change of the person changes nothing, shows what is stored, and
// asks again.
func TestStaleScopeForms(t *testing.T) {
	r := newRig(t)
	u := &config.User{Meta: entity.Meta{ID: "usr_2", Rev: 5}, Email: "new@example.com", Scope: config.Read}
	r.account.others = []*config.User{u}
	b := r.signedIn()
	scope := "/app/settings/people" + "/usr_2/scope"
	form := url.Values{"scope": {"read_write"}, "version": {b.get("/app/settings/people").want(200).versionOf(scope)}}
	u.Rev, u.LastSignInAt = 6, r.now
	asked := b.post(scope, form).want(400, "new@example.com has changed", "Nothing was saved",
		"Stored now: reads, last signed")
	must.Equal(t, u.Scope, config.Read, "the scope was changed")
	form.Set("version", asked.versionOf(scope))
	b.post(scope, form).wantRedirect("/app/settings/people")
	is.Equal(t, u.Scope, config.ReadWrite, "the scope was not changed")
	b.post(scope, form).want(400, "That is the scope that you asked for")
	b.post(scope, url.Values{"scope": {"read"}}).want(400, "incomplete")
	r.account.others = nil
	b.post(scope, form).want(404)
}

func TestLastWriterStays(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	page := b.get("/app/settings/people").want(200, "Nobody else may change anything")
	if strings.Contains(page.body, "usr_1/remove") || strings.Contains(page.body, "usr_1/scope") {
		t.Error("the last writer can be removed or made a reader")
	}
	b.post("/app/settings/people"+"/usr_1/scope", url.Values{"scope": {"read"}, "version": {"1"}}).want(400,
		"Nobody else may change anything")
	b.post("/app/settings/people"+"/usr_1/remove", url.Values{"confirm": {"ops@example.com"}}).want(400, "Nobody else")
}

func TestOwnResetEndsTheSession(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	b.post("/app/settings/people"+"/usr_1/reset", url.Values{"version": {"1"}}).want(200, "reset-token-1")
	b.get("/app/settings/people").want(http.StatusSeeOther)
	b = r.signedIn()
	b.post("/app/settings/people"+"/usr_1/sign-out", url.Values{}).wantRedirect(ui.SignInPath)
	is.Equal(t, r.people.ended, 1, "the sessions were not ended")
}

func TestReaderSeesNoControlsOfSettings(t *testing.T) {
	r := newRig(t)
	r.people.person.Scope = config.Read
	r.account.keys = []*config.Key{{ID: "key_1", Name: "orders", Scope: config.ReadWrite}}
	b := r.signedIn()
	for _, path := range []string{ui.KeysPath, "/app/settings/people", ui.AgentsPath} {
		page := b.get(path).want(200)
		if strings.Contains(page.main(), "<form") || strings.Contains(page.main(), "popovertarget") {
			t.Errorf("%s shows a reader a control: %s", path, page.main())
		}
	}
	b.post(ui.KeysPath, url.Values{"name": {"a"}}).want(403)
	b.post(ui.AgentsPath, url.Values{"name": {"a"}}).want(403)
	b.post("/app/settings/people", url.Values{"email": {"a@example.com"}}).want(403)
	b.get("/app/settings").wantRedirect(ui.KeysPath)
}

func TestAboutExaminesOnRequest(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	if page := b.get("/app/settings/about").want(200, "1.2.3", origin); strings.Contains(page.body, "kafka") {
		t.Error("opening the page examined the engines")
	}
	r.account.checks = func() ([]ui.Check, error) {
		b.post("/app/settings/about", url.Values{}).want(200, "Another examination is running")
		return []ui.Check{{Name: "kafka", State: "warn", Text: "one <b>broker", Advice: "add one",
			Details: make([]string, 100)}}, nil
	}
	page := b.post("/app/settings/about", url.Values{}).want(200, "kafka", `class="full">one &lt;b&gt;broker`, "add one",
		"warn")
	is.Equal(t, strings.Count(page.main(), "<br><small></small>"), 20, "lines of details")
}

// A program that cannot examine the engines has the page without that part.
func TestAboutWithoutDoctor(t *testing.T) {
	r := newRig(t)
	r.deps.Doctor = nil
	r.d = must.Get(New(r.cfg, r.deps, must.Get(allPages())(t)))(t)
	b := r.signedIn()
	is.Lacks(t, b.get("/app/settings/about").want(200, "1.2.3").main(), "<form", "the page")
	b.post("/app/settings/about", url.Values{}).want(404)
}

// Who made a run or a job is shown by name, a person and a key alike. What was removed keeps its id.
func TestAuthorsAreShownByName(t *testing.T) {
	for id, want := range map[string]string{"usr_1": "ops@example.com", "key_7": "deploy &lt;b&gt;", "key_9": "key_9"} {
		r := recoveryRig(t)
		r.account.keys = []*config.Key{{ID: "key_6", Name: "other"}, {ID: "key_7", Name: "deploy <b>"}}
		by := func(text string) string { return strings.ReplaceAll(text, `"usr_1"`, `"`+id+`"`) }
		r.api.on("GET /v1/recoveries", http.StatusOK, `{"data":[`+by(recoveryJSON)+`]}`)
		r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, by(recoveryJSON))
		r.api.on("GET /v1/replays", http.StatusOK, `{"data":[`+by(runJSON)+`]}`)
		r.api.on("GET /v1/overview", http.StatusOK, by(overviewJSON))
		b := r.signedIn()
		for _, path := range []string{ui.RecoveriesPath, ui.RecoveriesPath + "/rec_1", ui.ReplaysPath, "/app"} {
			b.get(path).want(http.StatusOK, "by "+want)
		}
	}
}
