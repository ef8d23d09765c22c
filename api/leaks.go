//go:build !core

package api

import "github.com/eventrelay/relay/pkg/secrets"

// Leaks is what the routes of leaks need beside the configuration.
type Leaks = leakSources

type leaksConfiguration = leakConfiguration

// newLeaks returns the routes of leaks, none without deps.Leaks, and what the overview shows of findings.
func newLeaks(cfg *Config, deps *Deps, c *core, scanner *secrets.Scanner) ([]route, addFindings) {
	d := leakDeps{core: c, config: deps.Config, keyring: deps.Keyring, erasures: deps.Erasures, limits: deps.Limits,
		egress: deps.Egress, leaks: scanner, baseURL: cfg.BaseURL}
	if deps.Leaks == nil {
		return nil, newLeakArea(&d).addFindings
	}
	d.leakSources = *deps.Leaks
	area := newLeakArea(&d)
	return area.routes(), area.addFindings
}
