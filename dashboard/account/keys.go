package account

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// keyRow is one API key in the list.
type keyRow struct {
	*config.Key
	Active  bool
	Expired bool
	NotSet  bool       // a bootstrap key that the settings of this node do not name: it gets 401
	LastUse *audit.Use // nil: never used, or not known
}

// Revocable reports whether the key works, or would work again if the settings named it.
func (k keyRow) Revocable() bool { return k.RevokedAt.IsZero() && !k.Expired }

// keysPage is the data of the page of API keys.
type keysPage struct {
	Keys      []keyRow
	Pager     frame.Pager
	Active    int  // how many keys work now
	NoUses    bool // the store, which has the uses, does not answer
	Form      *frame.Form
	Lifetimes []frame.Option
	BaseURL   string
	madeKey
}

// madeKey is the key that a form has created.
type madeKey struct {
	// New and Text are the key that was created by this request. Text is shown this once.
	New  *config.Key
	Text string
	// Repeated is the key that an earlier submission of the same form created.
	Repeated *config.Key
}

// makeKey creates the key that a form describes. If the form has a fault, ok is false, and the form says it.
func makeKey(v *frame.Visit, f *frame.Form, n config.NewKey) (made madeKey, ok bool, err error) {
	n.Name, n.Nonce = strings.TrimSpace(f.Value("name")), f.Nonce
	if n.ExpiresAt, ok = expiryOf(v, f.Value("expires")); !ok {
		err = &entity.InvalidError{Param: "expires", Message: "is not one of the choices"}
	} else {
		made.Text, made.New, err = v.Deps.Keys.CreateKey(v.R.Context(), n)
	}
	if v.Refused(f, invalidInput(err)) {
		return madeKey{}, false, nil
	}
	if errors.Is(err, config.ErrAlreadyCreated) {
		return madeKey{Repeated: made.New}, true, nil
	}
	return made, true, err
}

// lifetimes are the choices of the field expires, in days; empty: the key never expires.
var lifetimes = []frame.Option{
	{Value: "", Text: "Never"}, {Value: "30", Text: "In 30 days"}, {Value: "90", Text: "In 90 days"},
	{Value: "365", Text: "In a year"},
}

// listKeys returns what shows a page with the form of a new key.
func listKeys(page func(*frame.Visit, *frame.Form, madeKey) error) func(*frame.Visit) error {
	return func(v *frame.Visit) error {
		f := scopeForm("")
		f.Values.Set("tenant", v.R.URL.Query().Get("tenant"))
		return page(v, f, madeKey{})
	}
}

// showKeys shows the API keys and, to a writer, the form for a new one, even while the store is unavailable: somebody
// may have to revoke a key just then.
func showKeys(v *frame.Visit, f *frame.Form, made madeKey) error {
	p := &keysPage{Form: f, Lifetimes: lifetimes, BaseURL: v.Config.BaseURL, madeKey: made}
	now := v.Now()
	var ended []keyRow
	for _, k := range v.Deps.Keys.Keys(v.Person.Account) {
		row := keyRow{Key: k, Expired: !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)}
		row.NotSet = !v.Deps.Keys.IsSet(k)
		if row.Active = k.RevokedAt.IsZero() && !row.Expired && !row.NotSet; row.Active {
			p.Keys = append(p.Keys, row)
		} else {
			ended = append(ended, row)
		}
	}
	p.Active = len(p.Keys)
	p.Keys, p.Pager = frame.Paginate(v, frame.KeysPath, append(p.Keys, ended...)) // newest first among each
	addUses(v, p)
	return v.Page("keys", p)
}

// addUses adds the last uses to the keys of a page.
func addUses(v *frame.Visit, p *keysPage) {
	if len(p.Keys) == 0 {
		return
	}
	ids := make([]string, len(p.Keys))
	for i, row := range p.Keys {
		ids[i] = row.ID
	}
	uses, err := v.Deps.KeyUses.KeyUses(v.R.Context(), v.Person.Account, ids)
	if err != nil {
		p.NoUses = true
		v.Deps.Log.LogAttrs(v.R.Context(), slog.LevelWarn, "cannot read the last uses of API keys", slog.Any("error", err))
	}
	for i, row := range p.Keys {
		if u, used := uses[row.ID]; used {
			p.Keys[i].LastUse = &u
		}
	}
}

// createKey returns the handler of the form of a new key. The page shows its text, once: a second submission of the
// form shows it to nobody. The key of an agent changes nothing by itself.
func createKey(agent bool, page func(*frame.Visit, *frame.Form, madeKey) error) func(*frame.Visit) error {
	return frame.Submit(func(v *frame.Visit, f *frame.Form) error {
		made, ok, err := makeKey(v, f, config.NewKey{Scope: config.Scope(f.Value("scope")), Agent: agent,
			Tenant: strings.TrimSpace(f.Value("tenant"))})
		if err != nil {
			return err
		}
		if ok {
			f = scopeForm("")
		}
		return page(v, f, made)
	})
}

// expiryOf returns when a key with a lifetime of the list ends; ok is false for other lifetimes.
func expiryOf(v *frame.Visit, lifetime string) (at time.Time, ok bool) {
	if !slices.ContainsFunc(lifetimes, func(o frame.Option) bool { return o.Value == lifetime }) {
		return time.Time{}, false
	}
	if lifetime == "" {
		return time.Time{}, true
	}
	days, err := strconv.Atoi(lifetime)
	return v.Now().AddDate(0, 0, days).UTC(), err == nil
}

// revokeKey revokes an API key, whose name the person has typed.
func revokeKey(v *frame.Visit) error {
	all := v.Deps.Keys.Keys(v.Person.Account)
	i := slices.IndexFunc(all, func(k *config.Key) bool { return k.ID == v.Vars["key"] })
	if i < 0 {
		return web.Missing("There is no such API key any more. Nothing was changed.")
	}
	k := all[i]
	if strings.TrimSpace(v.Values.Get("confirm")) != k.Name {
		v.Status = http.StatusBadRequest
		return showKeys(v, scopeForm("To revoke a key, type its name. Nothing was revoked."), madeKey{})
	}
	if err := v.Deps.Keys.RevokeKey(v.R.Context(), k.ID); err != nil {
		return err
	}
	return v.Redirect(frame.KeysPath, "Revoked. The key works on no node any more.")
}

// agentKeyVariable is the environment variable that holds the key on the machine of an agent: configurations name it,
// so that they can be committed.
const agentKeyVariable = "EVENTRELAY_API_KEY"

// agentsPage is the data of the page that connects agents.
type agentsPage struct {
	Form      *frame.Form
	Lifetimes []frame.Option
	Clients   []agentClient
	Variable  string
	Connected int              // keys of agents that work now
	Pending   []*config.Action // changes that agents ask for
	Recent    []askedChange    // the newest that are settled
	madeKey
}

// askedChange is a change that an agent asked for, and what became of it.
type askedChange struct {
	*config.Action
	State config.ActionState // now
	By    string             // email address of the person who decided; empty if nobody has, or the person was removed
}

// About is the page of what the change is about: its path is the one under /v1.
func (a askedChange) About() string {
	if len(a.Resources) == 0 {
		return ""
	}
	return "/app" + strings.TrimPrefix(a.Resources[0], "/v1")
}

// Made is the page of the run or the scan that the change has started; empty if it has started none.
func (a askedChange) Made() string {
	if strings.HasPrefix(a.Result, id.Run) || strings.HasPrefix(a.Result, id.Scan) {
		return frame.PageOf(a.Result)
	}
	return ""
}

// newAskedChange returns an action with its state now.
func newAskedChange(v *frame.Visit, a *config.Action) askedChange {
	x := askedChange{Action: a, State: a.StateAt(v.Now())}
	for _, u := range v.Deps.Members.Users() {
		if u.ID == a.DecidedBy {
			x.By = u.Email
		}
	}
	return x
}

// agentClient says how a program connects to the agent server.
type agentClient struct {
	Name, Place string // Place is a file or "a shell"
	Lines       []string
	Shell       bool // Lines are a command
	Hint        string
	Text        string
}

// agentClients returns the configuration of each program, from its documentation: Claude Code ("MCP"), Cursor ("Model
// Context Protocol"), VS Code ("MCP configuration reference"), Codex CLI ("MCP"), and mcp-remote for Claude Desktop,
// which starts local programs only; it takes http with a flag.
func agentClients(base string) []agentClient {
	clients, flag := frame.ReadJSON[[]agentClient](files, "agents.json"), ""
	if strings.HasPrefix(base, "http://") {
		flag = ",\n        \"--allow-http\""
	}
	fill := strings.NewReplacer("{base}", base, "{http}", flag)
	for i := range clients {
		clients[i].Text = fill.Replace(strings.Join(clients[i].Lines, "\n"))
	}
	return clients
}

// showAgents shows how agents are connected and, to a writer, the form for a key.
func showAgents(v *frame.Visit, f *frame.Form, made madeKey) error {
	p := &agentsPage{Form: f, Lifetimes: lifetimes, Clients: agentClients(v.Config.BaseURL), Variable: agentKeyVariable,
		madeKey: made}
	p.Pending = v.Deps.AgentActions.Pending(v.Person.Account)
	for _, a := range v.Deps.AgentActions.Recent(v.Person.Account) {
		p.Recent = append(p.Recent, newAskedChange(v, a))
	}
	now := v.Now()
	for _, k := range v.Deps.Keys.Keys(v.Person.Account) {
		if k.Agent && k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)) {
			p.Connected++
		}
	}
	return v.Page("agents", p)
}
