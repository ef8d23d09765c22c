package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	agentpages "github.com/eventrelay/relay/features/agents/pages"
	cataloguepages "github.com/eventrelay/relay/features/catalogue/pages"
	fixtures "github.com/eventrelay/relay/features/fixtures/pages"
	issues "github.com/eventrelay/relay/features/issues/pages"
	"github.com/eventrelay/relay/features/leaks/pages"
	portal "github.com/eventrelay/relay/features/portal/pages"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/must"
)

// people is a dashboard's people in memory: one person, ops@example.com.
type people struct {
	person   config.User
	password string
	link     string
	err      error         // of every call, unless it is nil
	ended    int           // calls of EndSessions
	issued   int           // sign-ins by an issuer
	origin   config.Origin // of the last change by an answer of an issuer
	// signedOut are the sessions that were ended one by one.
	signedOut map[string]bool
	verified  int    // calls of SignIn and ChangePassword
	during    func() // is called during them, unless it is nil
}

// newNonce makes the nonce of a form that was not drawn.
var newNonce = ui.NewNonce

const goodPassword = "correct horse battery"

func newPeople() *people {
	return &people{
		person: config.User{
			Meta: entity.Meta{ID: "usr_1", Account: "acc_1", Rev: 1}, Email: "ops@example.com", Epoch: 7,
			Scope: config.ReadWrite},
		password: goodPassword, link: "link-token", signedOut: make(map[string]bool),
	}
}

func (p *people) SignIn(_ context.Context, email, password string) (*config.User, error) {
	if err := p.verify(password); err != nil || email != p.person.Email {
		return nil, cmp.Or(err, config.ErrSignIn)
	}
	return p.current(), nil
}

func (p *people) verify(password string) error {
	p.verified++
	if p.err != nil {
		return p.err
	}
	if p.during != nil {
		p.during()
	}
	if password != p.password {
		return config.ErrSignIn
	}
	return nil
}

func (p *people) ChangePassword(_ context.Context, _, current, password string) (*config.User, error) {
	if len(password) < config.MinPassword {
		return nil, &entity.InvalidError{Param: "password", Message: "must have 12 to 1000 bytes"}
	}
	if err := p.verify(current); err != nil {
		return nil, err
	}
	p.password = password
	p.person.Epoch++
	return p.current(), nil
}

func (p *people) RedeemLink(_ context.Context, token string) (*config.User, error) {
	if p.err != nil {
		return nil, p.err
	}
	if token != p.link {
		return nil, config.ErrLink
	}
	p.link, p.person.ChoosePassword = "", true
	return p.current(), nil
}

func (p *people) SetPassword(_ context.Context, _, password string) (*config.User, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case len(password) < config.MinPassword:
		return nil, &entity.InvalidError{Param: "password", Message: "must have 12 to 1000 bytes"}
	case !p.person.ChoosePassword:
		return nil, config.ErrNoPasswordChoice
	}
	p.person.ChoosePassword = false
	p.password = password
	p.person.Epoch++
	return p.current(), nil
}

func (p *people) SignInIdentity(ctx context.Context, who config.Identity, renews bool) (*config.User, error) {
	if p.err != nil {
		return nil, p.err
	}
	if !renews {
		p.issued++
	}
	p.origin = config.OriginOf(ctx)
	p.person.ID, p.person.Issuer, p.person.Email, p.person.Scope = who.UserID(), who.Issuer, who.Email, who.Scope
	return p.current(), nil
}

func (p *people) EndIdentity(ctx context.Context, who config.Identity) error {
	p.origin = config.OriginOf(ctx)
	if who.UserID() == p.person.ID {
		p.person.Epoch++
	}
	return p.err
}

func (p *people) SessionUser(user, session string, epoch int) (*config.User, error) {
	if p.err != nil {
		return nil, p.err
	}
	if user != p.person.ID || epoch != p.person.Epoch || p.signedOut[session] {
		return nil, config.ErrSessionEnded
	}
	return p.current(), nil
}

func (p *people) EndSession(_ context.Context, user, session string, until time.Time) error {
	if p.err != nil {
		return p.err
	}
	if user != p.person.ID || session == "" || until.IsZero() {
		return errors.New("not a session")
	}
	p.signedOut[session] = true
	return nil
}

func (p *people) EndSessions(context.Context, string) error {
	if p.err != nil {
		return p.err
	}
	p.ended++
	p.person.Epoch++
	return nil
}

func (p *people) current() *config.User {
	copied := p.person
	return &copied
}

// sessionKey is a key in memory.
type sessionKey [32]byte

func (k *sessionKey) SessionKey(context.Context) ([32]byte, error) { return *k, nil }

// attempts is a SignInLimit of five wrong passwords, which never ends.
type attempts map[string]int

func (a attempts) Claim(_ context.Context, email string, from netip.Addr) time.Duration {
	if a[email+from.String()] >= 5 {
		return 42 * time.Second
	}
	a[email+from.String()]++
	return 0
}

func (a attempts) Release(_ context.Context, email string, from netip.Addr) { a[email+from.String()]-- }

// apiCall is one call of the API.
type apiCall struct {
	Principal    *config.Key
	Method, Path string
	Query        url.Values
	Body, Key    string
	check        func() (*config.Key, error)
}

// api answers every call with the response of its method and path, and otherwise with 404.
type api struct {
	calls     []apiCall
	responses map[string]func(apiCall) (int, http.Header, string)
}

func (a *api) Call(ctx context.Context, principal *config.Key, method, path string, query url.Values, body []byte,
	idempotencyKey string) (int, http.Header, []byte) {
	c := apiCall{principal, method, path, query, string(body), idempotencyKey, config.SessionCheck(ctx)}
	a.calls = append(a.calls, c)
	if respond := a.responses[method+" "+path]; respond != nil {
		status, header, text := respond(c)
		return status, header, []byte(text)
	}
	return http.StatusNotFound, http.Header{}, []byte(`{"error":{"type":"not_found","message":"there is nothing here"}}`)
}

// on sets the response to a method and path.
func (a *api) on(route string, status int, body string) {
	a.responses[route] = func(apiCall) (int, http.Header, string) { return status, http.Header{}, body }
}

// control is the configuration of a rig.
type control struct {
	*people
	*settings
	*sessionKey
	*rig
	noPortal
}

// rig is a dashboard with everything that it depends on in memory.
type rig struct {
	t      testing.TB
	d      *ui.Dashboard
	people *people
	// account has the people and the API keys that the settings show.
	account *settings
	api     *api
	actions *actions
	limit   attempts
	key     *sessionKey
	now     time.Time
	log     *strings.Builder

	outstanding, awaiting int // counts of Waiting

	cfg   ui.Config
	deps  ui.Deps
	extra ui.Area // pages of a test, see addPage
}

// addPage adds a page for a test, with the template as its block "main".
func (r *rig) addPage(x ui.Route, name, text string) {
	r.t.Helper()
	if r.extra.Pages == nil {
		r.extra.Pages = fstest.MapFS{}
	}
	r.extra.Routes = append(r.extra.Routes, x)
	if files, ok := r.extra.Pages.(fstest.MapFS); ok && name != "" {
		files["pages/"+name+".html"] = &fstest.MapFile{
			Data: []byte(`{{define "title"}}Test{{end}}{{define "main"}}` + text + `{{end}}`)}
	}
	pages, err := ui.NewSite(staticFiles, menu, append(allAreas(), r.extra)...)
	if err == nil {
		r.d, err = ui.New(r.cfg, r.deps, pages)
	}
	must.Do(r.t, err)
}

// routes are those of all areas but the portal, which has its tests in package api.
func routes(t testing.TB) (all []ui.Route) {
	t.Helper()
	pages := must.Get(allPages())(t)
	for _, a := range pages.Areas {
		all = append(all, a.Routes...)
	}
	return slices.DeleteFunc(all, func(x ui.Route) bool { return strings.HasPrefix(x.Path, ui.PortalPath) })
}

func (r *rig) OutstandingFindings() int { return r.outstanding }

func (r *rig) AwaitingApproval(string) int { return r.awaiting }

// Endpoints are those with which the API answers, without a call.
func (r *rig) Endpoints(string, int64, int) (page []*config.Endpoint, more bool) {
	var list struct {
		Data       []json.RawMessage
		NextCursor string `json:"next_cursor"`
	}
	r.decode("GET /v1/endpoints", &list)
	for _, text := range list.Data {
		page = append(page, storedEndpoint(r.t, text))
	}
	return page, list.NextCursor != ""
}

func (r *rig) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	page, _ := r.Endpoints("", 0, 0)
	for _, e := range page {
		if e.ID == id {
			return e, entity.Present
		}
	}
	var text json.RawMessage
	if r.decode("GET /v1/endpoints/"+id, &text); text != nil {
		return storedEndpoint(r.t, text), entity.Present
	}
	return nil, entity.Unknown
}

// decode decodes the answer of the API to a call that is not made; nothing if it is an error.
func (r *rig) decode(call string, out any) {
	if respond := r.api.responses[call]; respond != nil {
		if status, _, text := respond(apiCall{}); status == http.StatusOK {
			must.Do(r.t, json.Unmarshal([]byte(text), out))
		}
	}
}

// storedEndpoint is an endpoint of the API as the configuration has it.
func storedEndpoint(t testing.TB, text []byte) *config.Endpoint {
	var x struct {
		ID, Name     string
		Destinations []struct {
			ID, URL string
			Name    *string
		}
		Alerts *struct {
			MutedUntil time.Time `json:"muted_until"`
		}
	}
	must.Do(t, json.Unmarshal(text, &x))
	e := &config.Endpoint{ID: x.ID, Account: "acc_1", Name: x.Name}
	for _, d := range x.Destinations {
		e.Destinations = append(e.Destinations, config.Destination{ID: d.ID, Name: d.Name, URL: d.URL})
	}
	if x.Alerts != nil {
		e.Alerts = &alerting.EndpointAlerts{MutedUntil: x.Alerts.MutedUntil}
	}
	return e
}

// origin is the address of the dashboard in tests.
const origin = "http://relay.example.com"

func newRig(t testing.TB, change ...func(*ui.Config)) *rig {
	t.Helper()
	r := &rig{t: t, people: newPeople(), limit: attempts{}, key: &sessionKey{1, 2, 3}, log: &strings.Builder{},
		api: &api{responses: map[string]func(apiCall) (int, http.Header, string){}},
		now: time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)}
	r.actions = &actions{now: func() time.Time { return r.now }}
	r.account = &settings{people: r.people, nonces: map[string]*config.Key{}}
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[]}`)
	r.api.on("GET /v1/overview", http.StatusOK, overviewJSON)
	cfg := ui.Config{BaseURL: origin, Version: "1.2.3"}
	for _, f := range change {
		f(&cfg)
	}
	r.cfg, r.deps = cfg, ui.Deps{
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Now: func() time.Time { return r.now },
		Account: func() string { return "acc_1" }, API: r.api, Control: control{r.people, r.account, r.key, r, noPortal{}},
		SignInLimit: r.limit, KeyUses: r.account, AgentActions: r.actions,
		Doctor: func(context.Context) ([]ui.Check, error) { return r.account.checks() },
	}
	var err error
	if r.d, err = New(r.cfg, r.deps, must.Get(allPages())(r.t)); err != nil {
		t.Fatal(err)
	}
	return r
}

// browser is a client with cookies that behaves as a browser does: it sends Sec-Fetch-Site and Origin with a POST.
type browser struct {
	*rig
	origin  string
	cookies map[string]*http.Cookie
}

func (r *rig) browser() *browser { return &browser{r, origin, map[string]*http.Cookie{}} }

// signedIn is a browser with a session.
func (r *rig) signedIn() *browser {
	r.t.Helper()
	b := r.browser()
	if a := b.post("/app/sign-in", url.Values{"email": {"ops@example.com"}, "password": {goodPassword}}); a.code != 303 {
		r.t.Fatalf("sign in: %d %s", a.code, a.body)
	}
	return b
}

// answer is a response.
type answer struct {
	t      testing.TB
	code   int
	header http.Header
	body   string
}

// get opens a page.
func (b *browser) get(path string, headers ...string) *answer {
	return b.send("GET", path, nil, headers...)
}

// post sends a form. headers are names and values; an empty value removes the header.
func (b *browser) post(path string, form url.Values, headers ...string) *answer {
	return b.send("POST", path, form, append([]string{"Sec-Fetch-Site", "same-origin", "Origin", b.origin}, headers...)...)
}

func (b *browser) send(method, path string, form url.Values, headers ...string) *answer {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, path, body)
	r.Host = strings.TrimPrefix(strings.TrimPrefix(b.origin, "https://"), "http://")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.d.Handler().ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	return &answer{b.t, res.StatusCode, res.Header, w.Body.String()}
}

// want fails unless the response has that status and contains every text.
func (a *answer) want(code int, texts ...string) *answer {
	a.t.Helper()
	if a.code != code {
		a.t.Fatalf("status %d, want %d: %s", a.code, code, a.main())
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Errorf("the page lacks %q: %s", text, a.main())
		}
	}
	return a
}

// main is the page without the parts that all pages share.
func (a *answer) main() string {
	if _, main, ok := strings.Cut(a.body, "<main"); ok {
		return main
	}
	return a.body
}

// wantRedirect fails unless the response sends the browser to path.
func (a *answer) wantRedirect(path string) *answer {
	a.t.Helper()
	if a.want(http.StatusSeeOther); a.header.Get("Location") != path {
		a.t.Errorf("redirected to %q, want %q", a.header.Get("Location"), path)
	}
	return a
}

var nonceField = regexp.MustCompile(`name="nonce" value="([^"]+)"`)

// nonce is that of the first form of the page.
func (a *answer) nonce() string {
	a.t.Helper()
	m := nonceField.FindStringSubmatch(a.body)
	if m == nil {
		a.t.Fatalf("the page has no nonce: %s", a.body)
	}
	return m[1]
}

// noPortal is an account without sessions of the portal; package api tests its pages.
type noPortal struct{ ui.Control }

func (noPortal) OpenPortalLink(context.Context, string) (*config.PortalSession, error) {
	return nil, config.ErrLink
}

// allAreas are the pages of the relay as it is built.
func allAreas() []ui.Area {
	return areas(pages.Area(), agentpages.Area(), cataloguepages.Area(), fixtures.Area(), issues.Area(), portal.Area())
}

// allPages is the site of all tests.
var allPages = sync.OnceValues(func() (*ui.Site, error) { return ui.NewSite(staticFiles, menu, allAreas()...) })
