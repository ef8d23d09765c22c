// Package endpoints has the pages of endpoints, their destinations, the workbench and the set-up.
package endpoints

import (
	"embed"
	"html/template"

	"github.com/eventrelay/relay/dashboard/ui"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", ui.EndpointsPath, ui.Reader, listEndpoints},
			{"GET", ui.EndpointsPath + "/new", ui.Writer, newEndpointForm},
			{"POST", ui.EndpointsPath + "/new", ui.Writer, ui.Submit(createEndpoint)},
			{"GET", ui.EndpointPath, ui.Reader, ui.Show(readEndpoint, showEndpoint)},
			{"GET", ui.EndpointPath + "/wait", ui.Reader, ui.Show(readEndpoint, waitForEvent)},
			{"POST", ui.EndpointPath + "/secret", ui.Writer, ui.Change(readEndpoint, saveSecret)},
			{"GET", ui.EndpointPath + "/settings", ui.Reader, ui.Show(readEndpoint, settingsForm.show)},
			{"POST", ui.EndpointPath + "/settings", ui.Writer, ui.Change(readEndpoint, settingsForm.save)},
			{"GET", ui.EndpointPath + "/retries", ui.Reader, ui.Show(readEndpoint, retriesForm.show)},
			{"POST", ui.EndpointPath + "/retries", ui.Writer, ui.Change(readEndpoint, retriesForm.save)},
			{"GET", workbenchPath, ui.Reader, ui.Show(readEndpoint, showWorkbench)},
			{"POST", workbenchPath, ui.Reader, ui.Change(readEndpoint, previewWorkbench)},
			{"POST", workbenchPath + "/save", ui.Writer, ui.Change(readEndpoint, saveWorkbench)},
			{"POST", ui.EndpointPath + "/pause", ui.Writer, ui.Button("PATCH "+endpointAPI,
				ui.Object{"paused": true}, ui.EndpointPath, "Paused. Events are stored and wait.")},
			{"POST", ui.EndpointPath + "/unpause", ui.Writer, ui.Button("PATCH "+endpointAPI,
				ui.Object{"paused": false}, ui.EndpointPath, "Unpaused. What waited is delivered now.")},
			{"POST", ui.EndpointPath + "/enable", ui.Writer, ui.Button("PATCH "+endpointAPI,
				ui.Object{"enabled": true}, ui.EndpointPath, "Enabled. Its ingest URL accepts requests.")},
			{"POST", ui.EndpointPath + "/test", ui.Writer, ui.Change(readEndpoint, testEndpoint)},
			{"POST", ui.EndpointPath + "/rotate-url", ui.Writer, ui.Change(readEndpoint, rotateURL)},
			{"POST", ui.EndpointPath + "/delete", ui.Writer, ui.Change(readEndpoint, deleteEndpoint)},
			{"GET", ui.EndpointPath + "/destinations/new", ui.Writer, ui.Show(readEndpoint, newDestinationForm)},
			{"POST", ui.EndpointPath + "/destinations/new", ui.Writer, ui.Change(readEndpoint, addDestination)},
			{"GET", ui.DestinationPath, ui.Reader, ui.Show(readDestination, showDestination)},
			{"GET", ui.DestinationPath + "/settings", ui.Reader, ui.Show(readDestination, showSettings)},
			{"GET", ui.DestinationPath + "/rules", ui.Reader, ui.Show(readDestination, showRules)},
			{"POST", ui.DestinationPath + "/rules", ui.Reader, ui.Change(readDestination, previewRules)},
			{"POST", ui.DestinationPath + "/rules/save", ui.Writer, ui.Change(readDestination, saveRules)},
			{"GET", ui.DestinationPath + "/signing", ui.Reader, ui.Show(readDestination, showSigning)},
			{"POST", ui.DestinationPath + "/settings", ui.Writer, ui.Change(readDestination, saveDestination)},
			{"POST", ui.DestinationPath + "/pause", ui.Writer, ui.Button("PATCH "+destinationAPI,
				ui.Object{"paused": true}, ui.DestinationPath, "Paused. Its deliveries wait.")},
			{"POST", ui.DestinationPath + "/unpause", ui.Writer, ui.Button("PATCH "+destinationAPI,
				ui.Object{"paused": false},
				ui.DestinationPath, "Unpaused. What waited is delivered now.")},
			{"POST", ui.DestinationPath + "/enable", ui.Writer, ui.Button("PATCH "+destinationAPI,
				ui.Object{"enabled": true},
				ui.DestinationPath, "Enabled. New events are delivered to it.")},
			{"POST", ui.DestinationPath + "/rotate", ui.Writer, ui.Change(readDestination, rotateSecret)},
			{"GET", ui.DestinationPath + "/purge", ui.Writer, ui.Show(readDestination, confirmPurge)},
			{"POST", ui.DestinationPath + "/purge", ui.Writer, ui.Change(readDestination, purgeDestination)},
			{"POST", ui.DestinationPath + "/remove", ui.Writer, ui.Change(readDestination, removeDestination)},
		},
		Functions: func(*ui.Dashboard) template.FuncMap { return template.FuncMap{"operations": operationLines} },
	}
}

// files are the templates of an area.
//
//go:embed pages
var files embed.FS
