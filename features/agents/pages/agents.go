package pages

import (
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
)

// agentKeyVariable is the environment variable that holds the key on the machine of an agent: configurations name it,
// so that they can be committed.
const agentKeyVariable = "EVENTRELAY_API_KEY"

// agentsPage is the data of the page that connects agents.
type agentsPage struct {
	Form      *ui.Form
	Lifetimes []ui.Option
	Clients   []agentClient
	Variable  string
	Connected int              // keys of agents that work now
	Pending   []*config.Action // changes that agents ask for
	Recent    []askedChange    // the newest that are settled
	ui.MadeKey
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
		return ui.PageOf(a.Result)
	}
	return ""
}

// newAskedChange returns an action with its state now.
func newAskedChange(v *ui.Visit, a *config.Action) askedChange {
	x := askedChange{Action: a, State: a.StateAt(v.Now())}
	for _, u := range v.Deps.Control.Users() {
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
	clients, flag := ui.ReadJSON[[]agentClient](files, "agents.json"), ""
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
func showAgents(v *ui.Visit, f *ui.Form, made ui.MadeKey) error {
	p := &agentsPage{Form: f, Lifetimes: ui.Lifetimes, Clients: agentClients(v.Config.BaseURL),
		Variable: agentKeyVariable, Pending: v.AskedChanges(), MadeKey: made}
	for _, a := range v.Deps.AgentActions.Recent(v.Person.Account) {
		p.Recent = append(p.Recent, newAskedChange(v, a))
	}
	now := v.Now()
	for _, k := range v.Deps.Control.Keys(v.Person.Account) {
		if k.Agent && k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)) {
			p.Connected++
		}
	}
	return v.Page("agents", p)
}
