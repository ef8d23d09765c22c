package ui

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// SendFile sends a file.
func SendFile(v *Visit, name, mediaType string, body []byte) {
	h := v.W.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = v.W.Write(body) // the client may have left
}

// templateFiles are layout.html, the parts that pages share, and the pages.
//
//go:embed templates
var templateFiles embed.FS

// view is what the templates see.
type view struct {
	Data     any // of the page
	Person   *config.User
	CanWrite bool
	Menu     []MenuGroup
	Waiting  map[string]*menuCount // by the path of the menu's item
	Path     string                // of the request
	Bare     bool                  // the page stands alone, without navigation
	Version  string
	Toast    string
	Now      moment
	AsOf     string // time of the data in RFC 3339; empty: it is current
	Assets   *assets
	Asked    int          // changes of agents that wait for a person
	Portal   *PortalVisit // a page of the portal
	Lang     *Language
	visit    *Visit
}

// Reference is the path of the page about the API; empty: there is none.
func (x view) Reference() string { return x.visit.Config.Reference }

// HasAgents reports whether the tenant of the portal has an agent, which may ask for changes.
func (x view) HasAgents() bool {
	return x.Asked > 0 || x.visit.Deps.AgentActions != nil && slices.ContainsFunc(
		x.visit.Deps.Control.Keys(x.Person.Account), func(k *config.Key) bool {
			return k.Agent && k.Tenant == x.Portal.Tenant && k.RevokedAt.IsZero()
		})
}

// Tag is the language of the page.
func (x view) Tag() string {
	if x.Lang == nil {
		return "en"
	}
	return x.Lang.Tag
}

// Theme is light or dark if the portal shows nothing else; empty: as the browser prefers.
func (x view) Theme() string {
	if x.Portal == nil {
		return ""
	}
	return x.visit.theme()
}

// HasEventTypes reports whether the catalogue describes event types.
func (x view) HasEventTypes() bool {
	var list wire.List[struct{ Name string }]
	return x.visit.GetSoon("/v1/event_types", url.Values{"limit": {"1"}}, &list) == nil && len(list.Data) > 0
}

// SamplePath is the page of the sample; empty: the relay has none.
func (x view) SamplePath() string {
	if x.visit.routes[SamplePath] == nil {
		return ""
	}
	return SamplePath
}

// AskedChanges are the changes of agents that wait for the visitor, newest first.
func (v *Visit) AskedChanges() []*config.Action {
	if v.Deps.AgentActions == nil {
		return nil
	}
	all := v.Deps.AgentActions.Pending(v.Person.Account)
	if v.Portal != nil {
		return v.TenantActions(all)
	}
	return all
}

// EventTypes are names of the catalogue, for fields in which a person enters one.
func (x view) EventTypes() []string { return x.visit.EventTypes() }

// EventTypes are the newest names of the catalogue that the visitor may see; none if it cannot be read.
func (v *Visit) EventTypes() (names []string) {
	var list wire.List[struct{ Name string }]
	if v.GetSoon("/v1/event_types", url.Values{"limit": {"100"}}, &list) == nil {
		for _, x := range list.Data {
			names = append(names, x.Name)
		}
	}
	return names
}

// pages are the templates that a dashboard executes, with its own functions.
type pages struct {
	site      *Site
	functions template.FuncMap

	mu     sync.Mutex // guards opened
	opened map[pageIn]*template.Template
}

// pageIn is a page in a language.
type pageIn struct {
	name string
	in   *Language
}

// template returns the template of a page in a language. The first call parses it.
func (p *pages) template(d *Dashboard, name string, in *Language) (*template.Template, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.opened[pageIn{name, in}]; ok {
		return t, nil
	}
	file, ok := p.site.files[name]
	if !ok {
		return nil, fmt.Errorf("there is no page %q", name)
	}
	t, err := p.site.shared.Clone()
	if err == nil {
		t, err = t.Funcs(p.functions).Funcs(in.functions(d)).ParseFS(file, file.name)
	}
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	p.opened[pageIn{name, in}] = t
	return t, nil
}

// partHeader names the parts of a page that live.js asks for, by their ids. If they must be opened anew, such as after
// signing out, the answer has redirectHeader.
const (
	partHeader     = "Relay-Part"
	redirectHeader = "Relay-Redirect"
)

// Part is the id of the part of the page that live.js asks for, or several ids; empty for a whole page.
func (v *Visit) Part() string { return v.R.Header.Get(partHeader) }

// Page writes the page pages/NAME.html of an area with data and v.Status, or the part of it that live.js asks for.
func (v *Visit) Page(name string, data any) error {
	lang := v.Language()
	t, err := v.pages.template(v.Dashboard, name, lang)
	if err != nil {
		return err
	}
	block := "layout"
	if part := v.Part(); part != "" {
		block = "fragment"
		if t.Lookup("#"+part) != nil {
			block = "#" + part
		}
	}
	x := view{
		Now:  v.Moment(v.Now()),
		Lang: lang,
		Data: data, Person: v.Person, Bare: v.Person == nil || v.Person.ChoosePassword, Portal: v.Portal,
		CanWrite: v.CanWrite(), Menu: v.menuShown(),
		Path: v.R.URL.Path, Version: v.Config.Version,
		AsOf: v.AsOf, Assets: v.assets, visit: v,
	}
	if block == "layout" {
		switch {
		case x.Bare:
		case v.Portal != nil:
			x.Asked = len(v.AskedChanges())
		default:
			x.Asked, x.Waiting = len(v.AskedChanges()), v.waiting(v.Person.Account)
		}
		x.Toast = v.takeToast()
		if err := v.renewSession(); err != nil {
			return err
		}
	}
	var buf bytes.Buffer
	if v.Status >= http.StatusBadRequest { // the message above a refused form needs labels of fields that are drawn later
		if err := t.ExecuteTemplate(io.Discard, block, x); err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
	}
	if err := t.ExecuteTemplate(&buf, block, x); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	v.W.WriteHeader(v.Status)
	_, _ = v.W.Write(buf.Bytes()) // the client may have left
	return nil
}

// setHeaders sets the security headers of every response. Scripts are allowed from the folder of static files alone:
// other paths of this host serve scripts and customers' bytes too.
func (v *Visit) setHeaders() {
	var scripts strings.Builder
	if v.hosts.check(v.R) == nil {
		for _, origin := range v.hosts.origins(v.R) {
			scripts.WriteString(" " + origin + v.assets.folder)
		}
	} else {
		scripts.WriteString(" 'none'")
	}
	h := v.W.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src"+scripts.String()+"; style-src 'self'; "+
		"img-src 'self' data:"+v.Portal.pictures()+"; connect-src 'self'; form-action "+
		strings.Join(append([]string{"'self'"}, v.framers()...), " ")+"; frame-ancestors "+ // leaving leads to one of them
		cmp.Or(strings.Join(v.framers(), " "), "'none'")+"; base-uri 'none'; "+
		"require-trusted-types-for 'script'; trusted-types default")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Set("X-Frame-Options", "DENY"); len(v.framers()) > 0 {
		h.Del("X-Frame-Options") // it cannot name several origins
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	if v.hosts.isTrustworthy(v.R) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// errorView is the data of the page of an error.
type errorView struct {
	Title, Message, Works, Todo string
	RetryAt                     time.Time // zero: not known
	RequestID                   string
	SignIn                      string    // path of the sign-in page, if that is what to do
	List                        *MenuItem // the list to return to; nil without a session
	DashboardURL                string    // if that is what to open instead
}

// errorPage writes the page of an error; see [web.Front].Respond.
func (d *Dashboard) errorPage(w http.ResponseWriter, r *http.Request, e *web.Error) {
	v := visitOf(r)
	if v.R == nil { // it did not come as far as serve
		v.W, v.R = w, r
		v.chooseHosts()
		v.setHeaders()
	}
	v.W, v.Status = w, e.Status
	x := v.describe(e)
	if e.RetryAfter > 0 {
		x.RetryAt = v.Now().Add(e.RetryAfter).Truncate(time.Second).Add(time.Second)
	}
	if err := v.Page("error", x); err != nil {
		http.Error(w, x.Title+": "+x.Message, e.Status)
	}
}

// describe says what an error means for the person, what still works, and what to do.
func (v *Visit) describe(e *web.Error) errorView {
	x := errorView{Message: Sentence(e.Message), RequestID: web.InfoOf(v.R).ID}
	if v.Person != nil {
		x.List = v.listOf(v.R.URL.Path)
	}
	if v.Portal != nil {
		return v.describeInPortal(e, x)
	}
	switch {
	case e.Code == codeHost:
		x.Title, x.Todo = "Unknown host name", "To allow this name, add it to RELAY_ALLOWED_HOSTS or set "+
			"RELAY_DASHBOARD_HOST on the server."
		x.DashboardURL = v.hosts.start
	case e.Code == codeOrigin:
		x.Title = "Request from another site"
		x.Todo = "Open the page here and send its form again. If you did that, check that RELAY_BASE_URL is the address in " +
			"your browser, and that no extension removes the Origin header."
	case e.Status == http.StatusUnauthorized:
		x.Title, x.SignIn = "Signed out", SignInPath
	case e.Status == http.StatusForbidden:
		x.Title, x.Works = "Not allowed", "You may open every page."
	case e.Code == CodeLink:
		x.Title, x.Todo = "The link does not work", "On the server, relay users reset EMAIL prints a new one."
	case e.Status == http.StatusNotFound:
		x.Title, x.Todo = "Not found", "It may have been deleted in the meantime, or its retention has ended."
	case e.Status == http.StatusTooManyRequests:
		x.Title, x.Todo = "Too many requests", "Wait, then try again."
	case e.Status == http.StatusServiceUnavailable, e.Status == http.StatusGatewayTimeout:
		x.Title, x.Works = "Unavailable at the moment", "Events are still accepted and delivered as far as the log allows. "+
			"Pages of endpoints and settings do not need the event store."
		x.Todo = todoLater(v)
	case e.Status >= http.StatusInternalServerError:
		x.Title = "Something failed"
		x.Todo = todoLater(v) + " The log names the request id."
	default:
		x.Title, x.Todo = "Not possible", "Go back, change what it names, and try again."
	}
	return x
}

// todoLater says what to do when a part of the service has not answered.
func todoLater(v *Visit) string {
	switch {
	case v.acting:
		return "Your change was not confirmed. Open the page again and see what is stored before you repeat it."
	case v.R.Method != http.MethodGet && v.R.Method != http.MethodHead:
		return "Nothing was done. Send the form again in some seconds."
	}
	return "Reload the page in some seconds. relay doctor says which part does not answer."
}

// CodeLink marks the error of a one-time link that does not work.
const CodeLink = "link"
