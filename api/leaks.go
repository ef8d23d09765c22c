//go:build !core

package api

import (
	"github.com/eventrelay/relay/api/endpoints"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/leaks"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Leaks is what the routes of leaks need beside the configuration.
type Leaks = leaks.Sources

type leaksConfiguration = leaks.Configuration

// newLeaks returns the routes of leaks, none without deps.Leaks, and what the overview shows of findings.
func newLeaks(cfg *Config, deps *Deps, c *frame.Core, scanner *secrets.Scanner) ([]frame.Route, []endpoints.AddNeeds) {
	d := leaks.Deps{Core: c, Config: deps.Config, Keyring: deps.Keyring, Erasures: deps.Erasures, Limits: deps.Limits,
		Egress: deps.Egress, Leaks: scanner, BaseURL: cfg.BaseURL}
	if deps.Leaks == nil {
		return nil, []endpoints.AddNeeds{leaks.New(&d).AddNeeds}
	}
	d.Sources = *deps.Leaks
	area := leaks.New(&d)
	return area.Routes(), []endpoints.AddNeeds{area.AddNeeds}
}
