// Package pages has the pages for people of a tenant: the destinations of the tenant's endpoints, and what was
// delivered to them. They come by a link that the owner of the account has made; see
// ui.Control for the session, and config.PortalSession for what it may do.
package pages

import (
	"embed"

	"github.com/eventrelay/relay/dashboard/ui"
)

// Paths of the portal.
const (
	linkPath        = ui.PortalPath + "/link/{token}"
	newPath         = ui.PortalPath + "/destinations/new"
	destinationPath = ui.PortalPath + "/endpoints/{endpoint}/destinations/{destination}"
	eventsPath      = ui.PortalPath + "/events"
	eventPath       = eventsPath + "/{event}"
	typesPath       = ui.PortalPath + "/event-types"
)

// Paths of the API.
const (
	destinationAPI = "/v1/endpoints/{endpoint}/destinations/{destination}"
	eventAPI       = "/v1/events/{event}"
)

// Area returns the pages of this package.
func Area() ui.Area {
	const view, change, replay = ui.PortalView, ui.PortalDestinations, ui.PortalReplay
	const secrets = ui.PortalSecrets
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", linkPath, ui.Public, linkForm},
		{"POST", linkPath, ui.Public, openLink},
		{"POST", ui.PortalPath + "/leave", view, leave},
		{"GET", ui.PortalPath + "/look.css", view, look},
		{"GET", ui.PortalPath, view, listDestinations},
		{"GET", newPath, change, newForm},
		{"POST", newPath, change, ui.Submit(create)},
		{"GET", destinationPath, view, ui.Show(read, show)},
		{"POST", destinationPath, change, ui.Change(read, save)},
		{"POST", destinationPath + "/remove", change, ui.Button("DELETE "+destinationAPI, nil, ui.PortalPath,
			"Removed. Nothing more is sent to it.")},
		{"POST", destinationPath + "/enable", change, ui.Button("PATCH "+destinationAPI,
			ui.Object{"enabled": true, "paused": false}, destinationPath, "Enabled. Events are delivered to it.")},
		{"POST", destinationPath + "/secret", secrets, ui.Change(read, showSecret)},
		{"POST", destinationPath + "/rotate", secrets, ui.Change(read, rotateSecret)},
		{"POST", destinationPath + "/again", replay, ui.Change(read, sendAgain)},
		{"POST", destinationPath + "/test", ui.PortalTest, ui.Change(read, sendTest)},
		{"GET", eventsPath, view, listEvents},
		{"GET", eventPath, view, showEvent},
		{"POST", eventPath + "/replay", replay, ui.Submit(replayEvent)},
		{"GET", typesPath, view, listTypes},
		{"GET", typesPath + "/{event_type}", view, ui.Show(ui.ReadAt[eventType]("/v1/event_types/{event_type}"), showType)},
	}}
}

//go:embed pages
var files embed.FS
