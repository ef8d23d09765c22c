// Package jobs has the pages of replays and recoveries.
package jobs

import (
	"embed"
	"strings"

	"github.com/eventrelay/relay/dashboard/frame"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{
		Pages: files,
		Routes: []frame.Route{
			{"GET", frame.ReplaysPath, frame.Reader, listReplays},
			{"GET", frame.NewReplayPath, frame.Writer, newReplayForm},
			{"POST", dryRunPath, frame.Writer, frame.Submit(dryRun)},
			{"POST", frame.ReplaysPath, frame.Writer, frame.Submit(startReplay)},
			{"GET", replayPath, frame.Reader, frame.Show(readRun, showReplay)},
			{"POST", replayPath + "/cancel", frame.Writer, frame.Change(readRun, cancelReplay)},
			{"GET", frame.RecoveriesPath, frame.Reader, listRecoveries},
			{"GET", frame.NewRecoveryPath, frame.Writer, newRecoveryForm},
			{"POST", frame.RecoveriesPath, frame.Writer, frame.Submit(createRecovery)},
			{"GET", recoveryPath, frame.Reader, frame.Show(readRecovery, showRecovery)},
			{"POST", recoveryPath + "/canary", frame.Writer, actOnRecovery("canary", "The canary is sent")},
			{"POST", recoveryPath + "/continue", frame.Writer, actOnRecovery("continue", "Sending the other deliveries")},
			{"POST", recoveryPath + "/cancel", frame.Writer, actOnRecovery("cancel", "Cancelled. Nothing more is sent.")},
		},
		Lists: map[string]frame.CSVList{
			"replays": {API: "/v1/replays", Filters: jobFilters, Columns: "run_id state since until events queued " +
				"delivered failed skipped created_at created_by"},
			"recoveries": {API: "/v1/recoveries", Filters: jobFilters, Columns: "id endpoint_id destination_id state since " +
				"until total pending queued delivered failed skipped stop_reason rate_per_second created_at finished_at " +
				"created_by"},
			"recovery-items": {API: "/v1/recoveries/{id}/items", Filters: []string{"state"}, Columns: "id recovery_id " +
				"event_id event_type destination_id state skipped_reason canary attempts last_response_status " +
				"last_error_code updated_at"},
		},
	}
}

//go:embed pages
var files embed.FS

// jobList is a FilteredList of jobs of endpoints, such as replays, with the choices of its filters.
type jobList[T any] struct {
	*frame.FilteredList[T]
	frame.EndpointChoices
	States []frame.Option
}

// jobFilters are the filters of a jobList.
var jobFilters = []string{"state", "endpoint_id"}

// listJobs reads a page of the list /v1/NAME, which is shown at /app/NAME. states are the choices of the filter of
// states.
func listJobs[T any](v *frame.Visit, name string, states []string) (l *jobList[T], err error) {
	l = &jobList[T]{}
	if l.FilteredList, err = frame.ListRows[T](v, "/v1/"+name, "/app/"+name, jobFilters); err != nil {
		return nil, err
	}
	l.EndpointChoices = frame.NewEndpointChoices(v, l.Filters.Value("endpoint_id"))
	l.CSV = frame.CSVLink(name, l.Filters.Values)
	for _, s := range states {
		l.States = append(l.States, frame.Option{Value: s, Text: strings.ReplaceAll(s, "_", " ")})
	}
	return l, nil
}
