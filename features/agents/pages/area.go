// Package pages has the pages that connect agents, and those on which people decide what agents ask for: of the
// dashboard, and of the portal for the agents of a tenant.
package pages

import (
	"embed"

	"github.com/eventrelay/relay/dashboard/ui"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", ui.AgentsPath, ui.Reader, ui.ListKeys(showAgents)},
		{"POST", ui.AgentsPath, ui.Writer, ui.CreateKey(true, showAgents)},
		{"GET", confirmPath, ui.Reader, ui.Show(actionInPath, showConfirm)},
		{"POST", confirmPath + "/approve", ui.Writer, decide(confirmPath, actionInPath, ui.AgentActions.Approve)},
		{"POST", confirmPath + "/decline", ui.Writer, decide(confirmPath, actionInPath, ui.AgentActions.Decline)},
		{"GET", requestsPath, ui.PortalView, listRequests},
		{"GET", requestPath, ui.PortalView, ui.Show(requestInPath, showRequest)},
		{"POST", requestPath + "/approve", ui.PortalReplay,
			decide(requestPath, requestInPath, ui.AgentActions.Approve)},
		{"POST", requestPath + "/decline", ui.PortalReplay,
			decide(requestPath, requestInPath, ui.AgentActions.Decline)},
	}}
}

//go:embed pages agents.json
var files embed.FS
