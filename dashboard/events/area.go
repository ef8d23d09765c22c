// Package events has the list of events and the page of one.
package events

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
			{"GET", frame.EventsPath, frame.Reader, listEvents},
			{"GET", frame.EventPath, frame.Reader, showEvent},
			{"GET", frame.EventPath + "/attempts", frame.Reader, listAttempts},
			{"GET", frame.EventPath + "/body", frame.Reader, downloadBody},
			{"POST", frame.EventPath + "/replay", frame.Writer, frame.Submit(replayEvent)},
			{"POST", frame.EventPath + "/erase", frame.Writer, erasePayload},
		},
		Lists: map[string]frame.CSVList{
			"events": {API: "/v1/events", Query: csvQuery, Columns: "id received_at endpoint_id type status reason why " +
				"source verification processing size_bytes"},
			"deliveries": {API: "/v1/events", Query: csvQuery, Each: "deliveries", Columns: "id received_at endpoint_id " +
				"type deliveries.destination_id deliveries.status deliveries.reason"},
		},
		Functions: func(*frame.Dashboard) template.FuncMap {
			return template.FuncMap{"failure": failureText, "details": detailsText}
		},
	}
}

//go:embed pages
var files embed.FS
