// Package agents lets programs with a language model read events, findings and usage, and ask for changes that a person
// approves.
package agents

import (
	"context"
	"net/http"
	"time"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/agents/confirm"
	"github.com/eventrelay/relay/features/agents/mcp"
	"github.com/eventrelay/relay/features/agents/pages"
	"github.com/eventrelay/relay/pkg/nodeconfig"
)

// Feature registers this package.
var Feature = features.Feature{Name: "agents", New: newParts, Pages: pages.Area}

// runFunc runs a component until its context ends.
type runFunc = func(context.Context) error

// agents is the feature in one node.
type agents struct {
	*features.Host
	server http.Handler // nil without the role api
}

func newParts(h *features.Host) features.Parts {
	a := &agents{Host: h}
	return features.Parts{Callers: []features.Start{
		{Name: "confirmations", Role: nodeconfig.RoleAPI, New: a.newConfirmer},
		{Name: "agent server", Role: nodeconfig.RoleAPI, New: a.newServer},
	}, Serve: a.serve}
}

// newConfirmer creates what does the approved changes of agents.
func (a *agents) newConfirmer() (runFunc, error) {
	c, err := confirm.New(confirm.Deps{
		Log: a.Log, Actions: a.Control, API: a.API, Now: a.Control.Now,
	})
	if err != nil {
		return nil, err
	}
	a.AgentActions = c
	return c.Run, nil
}

// newServer creates the agent server under /mcp.
func (a *agents) newServer() (runFunc, error) {
	s, err := mcp.New(mcp.Config{
		BaseURL: a.PublicURL, DashboardURL: a.DashboardURL, PortalURL: a.PortalURL, Version: a.Version,
		TrustedProxies: a.Front.Proxies, AllowedHosts: a.Settings.AllowedHosts,
	}, mcp.Deps{
		Log: a.Log, Keys: a.Control, Uses: a.KeyUses, Refusals: a.Tripwires,
		Reads: a.Limiter.NewWindow("tools", time.Minute), Writes: a.Limiter.NewWindow("changes", time.Minute),
		Actions: a.Control, API: a.API, Producer: a.Producer, Now: a.Now, Metrics: a.Metrics,
	})
	if err != nil {
		return nil, err
	}
	a.server = s.Handler()
	return nil, nil
}

// serve returns the handler of the agent server.
func (a *agents) serve(path string, notServed http.Handler) http.Handler {
	switch {
	case !mcp.Serves(path):
		return nil
	case a.server == nil:
		return notServed
	}
	return a.server
}
