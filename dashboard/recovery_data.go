package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// recoveryData is a recovery job of the API.
type recoveryData struct {
	ID            string               `json:"id"`
	EndpointID    string               `json:"endpoint_id"`
	DestinationID *string              `json:"destination_id"`
	Since         string               `json:"since"`
	Until         string               `json:"until"`
	Rate          int                  `json:"rate_per_second"`
	State         config.RecoveryState `json:"state"`
	Total         int64                `json:"total"`
	Pending       int64                `json:"pending"`
	Queued        int64                `json:"queued"`
	Delivered     int64                `json:"delivered"`
	Failed        int64                `json:"failed"`
	Skipped       int64                `json:"skipped"`
	Canary        struct {
		Total     int64 `json:"total"`
		Delivered int64 `json:"delivered"`
		Failed    int64 `json:"failed"`
	} `json:"canary"`
	ByDestination []*recoveryPart `json:"by_destination"`
	ETASeconds    *int64          `json:"eta_seconds"`
	StopReason    *string         `json:"stop_reason"`
	CreatedAt     string          `json:"created_at"`
	FinishedAt    string          `json:"finished_at"`
	DeadlineAt    string          `json:"deadline_at"`
	CreatedBy     string          `json:"created_by"`
	Warnings      []warningData   `json:"warnings"`

	EndpointName string `json:"endpoint_name"` // in the overview; empty: the endpoint was deleted, or could not be read
	// Held says which destinations of the job are paused, which holds all of it; empty if none is.
	Held string `json:"-"`
}

// setHeld puts a sentence with the names of what is paused in place of the warnings about it.
func (j *recoveryData) setHeld(e *endpointData) {
	warned := len(j.Warnings)
	j.Warnings = slices.DeleteFunc(j.Warnings, func(x warningData) bool {
		return x.Param == "endpoint_id" || x.Param == "destination_id"
	})
	if len(j.Warnings) == warned {
		return
	}
	var names []string
	for _, d := range j.ByDestination {
		if slices.ContainsFunc(e.Destinations, func(x destinationData) bool { return x.ID == d.ID && x.Paused }) {
			names = append(names, d.Name)
		}
	}
	switch {
	case e.Paused:
		j.Held = "the endpoint is paused"
	case len(names) == 1:
		j.Held = "the destination " + names[0] + " is paused"
	case len(names) > 1:
		j.Held = fmt.Sprintf("%d destinations are paused", len(names))
	default: // the endpoint could not be read, or has changed since
		j.Held = "a destination is paused"
	}
}

// recoveryPart is the part of a job for one destination.
type recoveryPart struct {
	ID       string  `json:"id"`
	Total    int64   `json:"total"`
	Failed   int64   `json:"failed"`
	TopError *string `json:"top_error"`

	Name string `json:"-"`
}

// Again is the form of a new job with the same selection.
func (j *recoveryData) Again() string {
	query := url.Values{"endpoint_id": {j.EndpointID}, "since": {j.Since}, "rate_per_second": {strconv.Itoa(j.Rate)},
		"destination_id": {textOf(j.DestinationID)}}
	return withQuery(newRecoveryPath, filtersOf(query, slices.Collect(maps.Keys(query))))
}

// CanarySize is how many deliveries the canary sends.
func (j *recoveryData) CanarySize() int64 { return min(j.Pending, config.MaxCanaryDeliveries) }

// recoveryMarks are the marks of the states of a job; of others it is pending.
var recoveryMarks = map[config.RecoveryState]status{
	config.RecoveryCompleted: {Mark: "delivered"}, config.RecoveryReady: {Mark: "held", On: true},
	config.RecoveryAwaitingApproval: {Mark: "held", On: true}, config.RecoveryStopped: {Mark: "failed", On: true},
	config.RecoveryFailed: {Mark: "failed", On: true}, config.RecoveryCancelled: {Mark: "skipped"},
	config.RecoveryExpired: {Mark: "skipped"},
}

// Status is the state of the job with a mark.
func (j *recoveryData) Status() status {
	s := recoveryMarks[j.State]
	s.Word, s.Mark = strings.ReplaceAll(string(j.State), "_", " "), cmp.Or(s.Mark, "pending")
	return s
}

// recoverySteps are the steps of a job.
var recoverySteps = []string{"Prepare", "Canary", "Approve", "Run"}

// recoveryStep is one step for the template.
type recoveryStep struct {
	Name, Hint    string
	Done, Present bool
}

// Steps are the steps of the job with what is known of each.
func (j *recoveryData) Steps() []recoveryStep {
	present := map[config.RecoveryState]int{
		config.RecoveryPreparing: 0, config.RecoveryReady: 1, config.RecoveryCanaryRunning: 1,
		config.RecoveryAwaitingApproval: 2, config.RecoveryRunning: 3,
	}
	at, open := present[j.State]
	switch continued := j.Delivered+j.Failed+j.Queued > j.Canary.Total; {
	case open:
	case j.State == config.RecoveryFailed: // the preparation failed
	case j.State == config.RecoveryCompleted:
		at = len(recoverySteps)
	case continued:
		at = 3
	case j.Canary.Total > 0 && j.Canary.Delivered == j.Canary.Total:
		at = 2
	default:
		at = 1
	}
	steps := make([]recoveryStep, len(recoverySteps))
	for i, name := range recoverySteps {
		steps[i] = recoveryStep{Name: name, Done: i < at, Present: open && i == at}
	}
	if j.State != config.RecoveryPreparing {
		steps[0].Hint = number(j.Total) + " selected"
	}
	if j.Canary.Total > 0 {
		steps[1].Hint = fmt.Sprintf("%d of %d delivered", j.Canary.Delivered, j.Canary.Total)
	}
	if j.State == config.RecoveryAwaitingApproval {
		steps[2].Hint = "waits for you"
	}
	steps[3].Hint = fmt.Sprintf("at %d a second", j.Rate)
	return steps
}

// recoveryItem is a delivery of a job.
type recoveryItem struct {
	ID            string  `json:"id"`
	EventID       string  `json:"event_id"`
	EventType     *string `json:"event_type"`
	DestinationID string  `json:"destination_id"`
	State         string  `json:"state"`
	SkippedReason *string `json:"skipped_reason"`
	Canary        bool    `json:"canary"`
	Attempts      int     `json:"attempts"`
	LastStatus    *int    `json:"last_response_status"`
	LastError     *string `json:"last_error_code"`
	UpdatedAt     string  `json:"updated_at"`

	Destination string `json:"-"` // its name
}

// Status is the state of the item with a mark.
func (x *recoveryItem) Status() status {
	if x.State == string(event.ItemQueued) {
		return status{Word: x.State, Mark: "pending"}
	}
	return newStatus(x.State)
}

// Result says what came of the item: why it was skipped, or what its destination answered last.
func (x *recoveryItem) Result() string {
	switch {
	case x.SkippedReason != nil:
		if text := words["item"][*x.SkippedReason]; text != "" {
			return text + " (" + *x.SkippedReason + ")"
		}
		return *x.SkippedReason
	case x.LastError != nil && x.LastStatus != nil:
		return "answered " + strconv.Itoa(*x.LastStatus) + " (" + *x.LastError + ")"
	case x.LastError != nil:
		return *x.LastError
	case x.LastStatus != nil:
		return "answered " + strconv.Itoa(*x.LastStatus)
	case x.State == string(event.ItemQueued):
		return "waits for its destination"
	case x.State == string(event.Pending):
		return "not sent yet"
	}
	return ""
}

// cause is a reason for which deliveries to a destination have failed.
type cause struct {
	Destination, Reason string
	Count               int64
	Example             string // the newest event with it, in a sentence
	EventID             string // of the example

	destination string // id
}

// causesOf counts the reasons of failed deliveries, the most frequent first. names are those of destinations.
func causesOf(events []*eventRow, names map[string]string) []*cause {
	var causes []*cause
	for _, e := range events {
		for _, d := range e.Deliveries {
			if d.Status != string(event.Failed) {
				continue
			}
			name, reason := destinationName(names, d.DestinationID), textOf(d.Reason)
			i := slices.IndexFunc(causes, func(c *cause) bool { return c.Destination == name && c.Reason == reason })
			if i < 0 {
				i, causes = len(causes), append(causes,
					&cause{Destination: name, Reason: reason, Example: e.Why, EventID: e.ID,
						destination: d.DestinationID})
			}
			causes[i].Count++
		}
	}
	slices.SortStableFunc(causes, func(a, b *cause) int { return int(b.Count - a.Count) })
	return causes
}
