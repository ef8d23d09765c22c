// Package pages has the pages for people of a tenant: the destinations of the tenant's endpoints, and what was
// delivered to them. They come by a link that the owner of the account has made; see
// frame.Control for the session, and config.PortalSession for what it may do.
package pages

import (
	"embed"

	"github.com/eventrelay/relay/dashboard/frame"
)

// Paths of the portal.
const (
	linkPath        = frame.PortalPath + "/link/{token}"
	newPath         = frame.PortalPath + "/destinations/new"
	destinationPath = frame.PortalPath + "/endpoints/{endpoint}/destinations/{destination}"
	eventsPath      = frame.PortalPath + "/events"
	eventPath       = eventsPath + "/{event}"
)

// Paths of the API.
const (
	destinationAPI = "/v1/endpoints/{endpoint}/destinations/{destination}"
	eventAPI       = "/v1/events/{event}"
)

// Area returns the pages of this package.
func Area() frame.Area {
	const view, change, replay = frame.PortalView, frame.PortalDestinations, frame.PortalReplay
	const secrets = frame.PortalSecrets
	return frame.Area{Pages: files, Routes: []frame.Route{
		{"GET", linkPath, frame.Public, linkForm},
		{"POST", linkPath, frame.Public, openLink},
		{"POST", frame.PortalPath + "/leave", view, leave},
		{"GET", frame.PortalPath + "/look.css", view, look},
		{"GET", frame.PortalPath, view, listDestinations},
		{"GET", newPath, change, newForm},
		{"POST", newPath, change, frame.Submit(create)},
		{"GET", destinationPath, view, frame.Show(read, show)},
		{"POST", destinationPath, change, frame.Change(read, save)},
		{"POST", destinationPath + "/remove", change, frame.Button("DELETE "+destinationAPI, nil, frame.PortalPath,
			"Removed. Nothing more is sent to it.")},
		{"POST", destinationPath + "/enable", change, frame.Button("PATCH "+destinationAPI,
			frame.Object{"enabled": true, "paused": false}, destinationPath, "Enabled. Events are delivered to it.")},
		{"POST", destinationPath + "/secret", secrets, frame.Change(read, showSecret)},
		{"POST", destinationPath + "/rotate", secrets, frame.Change(read, rotateSecret)},
		{"POST", destinationPath + "/test", frame.PortalTest, frame.Change(read, sendTest)},
		{"GET", eventsPath, view, listEvents},
		{"GET", eventPath, view, showEvent},
		{"POST", eventPath + "/replay", replay, frame.Submit(replayEvent)},
	}}
}

//go:embed pages
var files embed.FS
