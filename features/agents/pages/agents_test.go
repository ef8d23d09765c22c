package pages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Each configuration is what its program reads, with the address and the key in the right place.
func TestConfigurationsOfAgents(t *testing.T) {
	type server struct {
		Type, URL, Command string
		Headers, Env       map[string]string
		Args               []string
		Variable           string `toml:"bearer_token_env_var"`
	}
	for _, base := range []string{"https://relay.example.com", "http://localhost:8080"} {
		seen := map[string]bool{}
		for _, c := range agentClients(base) {
			seen[c.Name] = true
			var v struct {
				McpServers, Servers map[string]server
				Inputs              []struct{ Type, ID string }
				Codex               map[string]server `toml:"mcp_servers"`
			}
			var err error
			switch {
			case c.Shell:
				want := "claude mcp add --transport http eventrelay " + base +
					"/mcp \\\n  --header \"Authorization: Bearer $EVENTRELAY_API_KEY\""
				is.Equal(t, c.Text, want, c.Name)
				continue
			case strings.HasSuffix(c.Place, ".toml"):
				err = toml.Unmarshal([]byte(c.Text), &v)
			default:
				err = json.Unmarshal([]byte(c.Text), &v)
			}
			must.Do(t, err, c.Name)
			ok := false
			switch c.Name {
			case "Cursor":
				s := v.McpServers["eventrelay"]
				ok = s.URL == base+"/mcp" && s.Headers["Authorization"] == "Bearer ${env:EVENTRELAY_API_KEY}"
			case "VS Code":
				s := v.Servers["eventrelay"]
				ok = s.Type == "http" && s.URL == base+"/mcp" && v.Inputs[0].Type == "promptString" &&
					s.Headers["Authorization"] == "Bearer ${input:"+v.Inputs[0].ID+"}"
			case "Codex CLI":
				ok = v.Codex["eventrelay"].URL == base+"/mcp" && v.Codex["eventrelay"].Variable == "EVENTRELAY_API_KEY"
			case "Claude Desktop":
				s := v.McpServers["eventrelay"]
				all := strings.Join(s.Args, " ")
				ok = s.Command == "npx" && s.Env["AUTHORIZATION"] == "Bearer rly_live_…" &&
					strings.Contains(all, base+"/mcp --header Authorization:${AUTHORIZATION}") &&
					strings.Contains(all, "--allow-http") == strings.HasPrefix(base, "http://")
			}
			if !ok {
				t.Errorf("%s: %s", c.Name, c.Text)
			}
		}
		is.Equal(t, len(seen), 5, "programs")
	}
}
