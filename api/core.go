//go:build core

package api

import (
	"github.com/eventrelay/relay/api/endpoints"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/secrets"
)

// This file takes the place of leaks.go in a build without package leaks.

// Leaks are not served.
type Leaks struct{ Senders, Domains, Findings any }

type leaksConfiguration = any

func newLeaks(*Config, *Deps, *frame.Core, *secrets.Scanner) ([]frame.Route, []endpoints.AddNeeds) {
	return nil, nil
}
