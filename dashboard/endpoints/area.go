// Package endpoints has the pages of endpoints, their destinations, the workbench and the set-up.
package endpoints

import (
	"embed"
	"html/template"

	"github.com/eventrelay/relay/dashboard/frame"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{
		Pages: files,
		Routes: []frame.Route{
			{"GET", frame.EndpointsPath, frame.Reader, listEndpoints},
			{"GET", frame.EndpointsPath + "/new", frame.Writer, newEndpointForm},
			{"POST", frame.EndpointsPath + "/new", frame.Writer, frame.Submit(createEndpoint)},
			{"GET", frame.EndpointPath, frame.Reader, frame.Show(readEndpoint, showEndpoint)},
			{"GET", frame.EndpointPath + "/wait", frame.Reader, frame.Show(readEndpoint, waitForEvent)},
			{"POST", frame.EndpointPath + "/secret", frame.Writer, frame.Change(readEndpoint, saveSecret)},
			{"GET", frame.EndpointPath + "/settings", frame.Reader, frame.Show(readEndpoint, settingsForm.show)},
			{"POST", frame.EndpointPath + "/settings", frame.Writer, frame.Change(readEndpoint, settingsForm.save)},
			{"GET", frame.EndpointPath + "/retries", frame.Reader, frame.Show(readEndpoint, retriesForm.show)},
			{"POST", frame.EndpointPath + "/retries", frame.Writer, frame.Change(readEndpoint, retriesForm.save)},
			{"GET", workbenchPath, frame.Reader, frame.Show(readEndpoint, showWorkbench)},
			{"POST", workbenchPath, frame.Reader, frame.Change(readEndpoint, previewWorkbench)},
			{"POST", workbenchPath + "/save", frame.Writer, frame.Change(readEndpoint, saveWorkbench)},
			{"POST", frame.EndpointPath + "/pause", frame.Writer, frame.Button("PATCH "+endpointAPI,
				frame.Object{"paused": true}, frame.EndpointPath, "Paused. Events are stored and wait.")},
			{"POST", frame.EndpointPath + "/unpause", frame.Writer, frame.Button("PATCH "+endpointAPI,
				frame.Object{"paused": false}, frame.EndpointPath, "Unpaused. What waited is delivered now.")},
			{"POST", frame.EndpointPath + "/enable", frame.Writer, frame.Button("PATCH "+endpointAPI,
				frame.Object{"enabled": true}, frame.EndpointPath, "Enabled. Its ingest URL accepts requests.")},
			{"POST", frame.EndpointPath + "/test", frame.Writer, frame.Change(readEndpoint, testEndpoint)},
			{"POST", frame.EndpointPath + "/rotate-url", frame.Writer, frame.Change(readEndpoint, rotateURL)},
			{"POST", frame.EndpointPath + "/delete", frame.Writer, frame.Change(readEndpoint, deleteEndpoint)},
			{"GET", frame.EndpointPath + "/destinations/new", frame.Writer, frame.Show(readEndpoint, newDestinationForm)},
			{"POST", frame.EndpointPath + "/destinations/new", frame.Writer, frame.Change(readEndpoint, addDestination)},
			{"GET", frame.DestinationPath, frame.Reader, frame.Show(readDestination, showDestination)},
			{"GET", frame.DestinationPath + "/settings", frame.Reader, frame.Show(readDestination, showSettings)},
			{"POST", frame.DestinationPath + "/settings", frame.Writer, frame.Change(readDestination, saveDestination)},
			{"POST", frame.DestinationPath + "/pause", frame.Writer, frame.Button("PATCH "+destinationAPI,
				frame.Object{"paused": true}, frame.DestinationPath, "Paused. Its deliveries wait.")},
			{"POST", frame.DestinationPath + "/unpause", frame.Writer, frame.Button("PATCH "+destinationAPI,
				frame.Object{"paused": false},
				frame.DestinationPath, "Unpaused. What waited is delivered now.")},
			{"POST", frame.DestinationPath + "/enable", frame.Writer, frame.Button("PATCH "+destinationAPI,
				frame.Object{"enabled": true},
				frame.DestinationPath, "Enabled. New events are delivered to it.")},
			{"POST", frame.DestinationPath + "/rotate", frame.Writer, frame.Change(readDestination, rotateSecret)},
			{"GET", frame.DestinationPath + "/purge", frame.Writer, frame.Show(readDestination, confirmPurge)},
			{"POST", frame.DestinationPath + "/purge", frame.Writer, frame.Change(readDestination, purgeDestination)},
			{"POST", frame.DestinationPath + "/remove", frame.Writer, frame.Change(readDestination, removeDestination)},
		},
		Functions: func(*frame.Dashboard) template.FuncMap { return template.FuncMap{"operations": operationLines} },
	}
}

// files are the templates of an area.
//
//go:embed pages
var files embed.FS
