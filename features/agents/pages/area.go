// Package pages has the pages that connect agents, and those on which people decide what agents ask for: of the
// dashboard, and of the portal for the agents of a tenant.
package pages

import (
	"embed"

	"github.com/eventrelay/relay/dashboard/frame"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{Pages: files, Routes: []frame.Route{
		{"GET", frame.AgentsPath, frame.Reader, frame.ListKeys(showAgents)},
		{"POST", frame.AgentsPath, frame.Writer, frame.CreateKey(true, showAgents)},
		{"GET", confirmPath, frame.Reader, frame.Show(actionInPath, showConfirm)},
		{"POST", confirmPath + "/approve", frame.Writer, decide(confirmPath, actionInPath, frame.AgentActions.Approve)},
		{"POST", confirmPath + "/decline", frame.Writer, decide(confirmPath, actionInPath, frame.AgentActions.Decline)},
		{"GET", requestsPath, frame.PortalView, listRequests},
		{"GET", requestPath, frame.PortalView, frame.Show(requestInPath, showRequest)},
		{"POST", requestPath + "/approve", frame.PortalReplay,
			decide(requestPath, requestInPath, frame.AgentActions.Approve)},
		{"POST", requestPath + "/decline", frame.PortalReplay,
			decide(requestPath, requestInPath, frame.AgentActions.Decline)},
	}}
}

//go:embed pages agents.json
var files embed.FS
