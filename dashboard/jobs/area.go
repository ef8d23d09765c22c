// Package jobs has the pages of replays and recoveries.
package jobs

import (
	"embed"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", ui.ReplaysPath, ui.Reader, listReplays},
			{"GET", ui.NewReplayPath, ui.Writer, newReplayForm},
			{"POST", dryRunPath, ui.Writer, ui.Submit(dryRun)},
			{"POST", ui.ReplaysPath, ui.Writer, ui.Submit(startReplay)},
			{"GET", replayPath, ui.Reader, ui.Show(readRun, showReplay)},
			{"POST", replayPath + "/cancel", ui.Writer, ui.Change(readRun, cancelReplay)},
			{"GET", ui.RecoveriesPath, ui.Reader, listRecoveries},
			{"GET", ui.NewRecoveryPath, ui.Writer, newRecoveryForm},
			{"POST", ui.RecoveriesPath, ui.Writer, ui.Submit(createRecovery)},
			{"GET", recoveryPath, ui.Reader, ui.Show(readRecovery, showRecovery)},
			{"POST", recoveryPath + "/canary", ui.Writer, actOnRecovery("canary", "The canary is sent")},
			{"POST", recoveryPath + "/continue", ui.Writer, actOnRecovery("continue", "Sending the other deliveries")},
			{"POST", recoveryPath + "/cancel", ui.Writer, actOnRecovery("cancel", "Cancelled. Nothing more is sent.")},
		},
		Lists: map[string]ui.CSVList{
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
	*ui.FilteredList[T]
	ui.EndpointChoices
	States []ui.Option
}

// jobFilters are the filters of a jobList.
var jobFilters = []string{"state", "endpoint_id"}

// listJobs reads a page of the list /v1/NAME, which is shown at /app/NAME. states are the choices of the filter of
// states.
func listJobs[T any](v *ui.Visit, name string, states []string) (l *jobList[T], err error) {
	l = &jobList[T]{}
	if l.FilteredList, err = ui.ListRows[T](v, "/v1/"+name, "/app/"+name, jobFilters); err != nil {
		return nil, err
	}
	l.EndpointChoices = ui.NewEndpointChoices(v, l.Filters.Value("endpoint_id"))
	l.CSV = ui.CSVLink(name, l.Filters.Values)
	for _, s := range states {
		l.States = append(l.States, ui.Option{Value: s, Text: strings.ReplaceAll(s, "_", " ")})
	}
	return l, nil
}
