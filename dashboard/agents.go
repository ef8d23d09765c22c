package dashboard

import (
	"encoding/json"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
)

const agentsPath = "/app/settings/agents"

// agentKeyVariable is the environment variable that holds the key on the machine of an agent: configurations name it,
// so that they can be committed.
const agentKeyVariable = "EVENTRELAY_API_KEY"

// agentsPage is the data of the page that connects agents.
type agentsPage struct {
	Form      *form
	Lifetimes []option
	Clients   []agentClient
	Variable  string
	Connected int           // keys of agents that work now
	Pending   []*config.Act // changes that agents ask for
	Recent    []askedChange // the newest that are settled
	Scopes    []option
	madeKey
}

// askedChange is a change that an agent asked for, and what became of it.
type askedChange struct {
	*config.Act
	State config.ActState // now
	By    string          // email address of the person who decided; empty if nobody has, or the person was removed
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
		return pageOf(a.Result)
	}
	return ""
}

// newAskedChange returns an act with its state now.
func newAskedChange(v *visit, a *config.Act) askedChange {
	x := askedChange{Act: a, State: a.StateAt(v.deps.Now())}
	for _, u := range v.deps.Members.Users() {
		if u.ID == a.DecidedBy {
			x.By = u.Email
		}
	}
	return x
}

// agentClient says how a program connects to the agent server.
type agentClient struct {
	Name, Place string // Place is a file or "a shell"
	Text        string
	Shell       bool // Text is a command
	Hint        string
}

// agentClients returns the configuration of each program, from its documentation: Claude Code ("MCP"), Cursor ("Model
// Context Protocol"), VS Code ("MCP configuration reference"), Codex CLI ("MCP"), and mcp-remote for Claude Desktop,
// which starts local programs only.
func agentClients(base string) []agentClient {
	type object = map[string]any
	url := base + "/mcp"
	header := func(value string) object { return object{"Authorization": value} }
	bridge := []string{"-y", "mcp-remote", url, "--header", "Authorization:${AUTHORIZATION}"}
	if strings.HasPrefix(base, "http://") {
		bridge = append(bridge, "--allow-http")
	}
	return []agentClient{
		{Name: "Claude Code", Place: "a shell", Shell: true,
			Text: "claude mcp add --transport http eventrelay " + url +
				" \\\n  --header \"Authorization: Bearer $" + agentKeyVariable + "\""},
		{Name: "Cursor", Place: ".cursor/mcp.json", Text: configText(object{"mcpServers": object{"eventrelay": object{
			"url": url, "headers": header("Bearer ${env:" + agentKeyVariable + "}")}}})},
		{Name: "VS Code", Place: ".vscode/mcp.json", Hint: "VS Code asks for the key once and keeps it.",
			Text: configText(object{
				"inputs": []object{{"type": "promptString", "id": "eventrelay-key", "description": "EventRelay API key",
					"password": true}},
				"servers": object{"eventrelay": object{"type": "http", "url": url,
					"headers": header("Bearer ${input:eventrelay-key}")}}})},
		{Name: "Codex CLI", Place: "~/.codex/config.toml",
			Text: "[mcp_servers.eventrelay]\nurl = \"" + url + "\"\nbearer_token_env_var = \"" + agentKeyVariable + "\""},
		{Name: "Claude Desktop", Place: "claude_desktop_config.json",
			Hint: "Put the key in place of rly_live_…: this file cannot name a variable. It needs Node.js.",
			Text: configText(object{"mcpServers": object{"eventrelay": object{"command": "npx", "args": bridge,
				"env": object{"AUTHORIZATION": "Bearer rly_live_…"}}}})},
	}
}

// configText returns v as JSON that a person reads.
func configText(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // only texts and lists of them are encoded
	}
	return string(text)
}

var agentScopes = []option{
	{Value: string(config.Read), Text: "Reads", Hint: "Investigates: events, findings, usage, recovery jobs."},
	{Value: string(config.ReadWrite), Text: "Reads, and asks for changes",
		Hint: "A person confirms each change here, before it is made."},
}

// connectAgent shows how agents are connected and, to a writer, the form for a key.
func connectAgent(v *visit) error { return showAgents(v, &agentsPage{Form: scopeForm("")}) }

func showAgents(v *visit, p *agentsPage) error {
	p.Lifetimes, p.Clients, p.Variable = lifetimes, agentClients(v.cfg.BaseURL), agentKeyVariable
	p.Scopes, p.Pending = agentScopes, v.deps.Acts.Pending(v.person.Account)
	for _, a := range v.deps.Acts.Recent(v.person.Account) {
		p.Recent = append(p.Recent, newAskedChange(v, a))
	}
	now := v.deps.Now()
	for _, k := range v.deps.Keys.Keys(v.person.Account) {
		if k.Agent && k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)) {
			p.Connected++
		}
	}
	return v.page("agents", p)
}

// createAgentKey creates the key of an agent, which changes nothing by itself, and shows its text once.
func createAgentKey(v *visit, f *form) error {
	made, ok, err := makeKey(v, f, config.NewKey{Scope: config.Scope(f.Value("scope")), Agent: true})
	if err != nil {
		return err
	}
	if ok {
		f = scopeForm("")
	}
	return showAgents(v, &agentsPage{Form: f, madeKey: made})
}
