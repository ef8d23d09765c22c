package dashboard

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// eventDetail is one event, as the API says it.
type eventDetail struct {
	eventRow
	Attempts          []*attemptData
	AttemptsTruncated bool        `json:"attempts_truncated"`
	HeadersRaw        [][2]string `json:"headers_raw"`
	HeadersBase64     []*string   `json:"headers_base64"`
	Body              string
	BodyEncoding      string  `json:"body_encoding"`
	ContentType       *string `json:"content_type"`
	Method            string
	Query             string
	RemoteIP          *string    `json:"remote_ip"`
	IdempotencyKey    *string    `json:"idempotency_key"`
	DuplicateOf       *string    `json:"duplicate_of"`
	ExpiresAt         time.Time  `json:"expires_at"`
	NextAttemptAt     *time.Time `json:"next_attempt_at"`
	PayloadErasedAt   *time.Time `json:"payload_erased_at"`
	Receipt           *receiptData
}

type deliveryData struct {
	ID            string
	DestinationID string `json:"destination_id"`
	Status        string
	Reason        *string
	Why           string
	Attempts      int
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	RunID         *string    `json:"run_id"`
	// TransformFailure says which operation failed; nil if none did, or if that is not known any more.
	TransformFailure *transformFailureData `json:"transform_failure"`

	Name    string         `json:"-"` // of the destination; its id if it was deleted
	Address string         `json:"-"` // of the destination, if Name does not say it
	Made    []*attemptData `json:"-"` // the newest of its attempts, oldest first
	Open    bool           `json:"-"` // it is shown with its attempts
}

// isOpen reports whether a delivery with that status has not ended.
func isOpen(status string) bool {
	return slices.Contains([]string{"pending", "retrying", "held"}, status)
}

// halt is why an open delivery gets no attempt at the time that is stored, in the words of the API; empty if it gets
// one. Its endpoint or destination was deleted, disabled, purged or paused since.
func (d *deliveryData) halt() string {
	clause := d.Why[strings.LastIndex(d.Why, "; ")+1:]
	if isOpen(d.Status) && (strings.HasSuffix(clause, ": nothing more is sent") ||
		strings.HasSuffix(clause, ": nothing is sent until it is unpaused")) {
		return strings.TrimSpace(clause)
	}
	return ""
}

// TransformFailed reports whether the endpoint's transformation could not be applied. The workbench can say why.
func (d *deliveryData) TransformFailed() bool {
	return d.Reason != nil && *d.Reason == string(event.TransformFailed)
}

// transformFailureData says which operation of which version could not be applied.
type transformFailureData struct {
	Version int `json:"transformation_version"`
	failureData
}

// Text is the failure as a sentence. Operations are counted from 1, as in the workbench.
func (x *transformFailureData) Text() string {
	if x.Index == nil {
		return fmt.Sprintf("Version %d of the transformation could not be applied: %s", x.Version, x.Message)
	}
	return fmt.Sprintf("Operation %d of version %d of the transformation failed at %s: %s", *x.Index+1, x.Version,
		x.Where(), x.Message)
}

type receiptData struct {
	State     string
	Reference *string
	Details   json.RawMessage
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// DetailsText is what the application reported: its text, or its JSON.
func (r *receiptData) DetailsText() string {
	var text string
	if json.Unmarshal(r.Details, &text) == nil {
		return text
	}
	return string(r.Details)
}

type attemptData struct {
	ID                string
	DestinationID     string `json:"destination_id"`
	AttemptNumber     int    `json:"attempt_number"`
	Trigger           string
	Status            string
	ResponseStatus    *int      `json:"response_status"`
	ErrorCode         *string   `json:"error_code"`
	ErrorMessage      *string   `json:"error_message"`
	StartedAt         time.Time `json:"started_at"`
	DurationMS        int64     `json:"duration_ms"`
	TTFBMS            int64     `json:"ttfb_ms"`
	RemoteIP          *string   `json:"remote_ip"`
	RetryAfterSeconds *int64    `json:"retry_after_seconds"`
	// TransformationVersion is 0 if the body was sent as it was received.
	TransformationVersion int        `json:"transformation_version"`
	NextAttemptAt         *time.Time `json:"next_attempt_at"`
	Request               struct {
		URL, Method string
		Headers     map[string]string
	}
	Response *struct {
		Headers      map[string]string
		Body         string
		BodyEncoding string `json:"body_encoding"`
		Truncated    bool
	}

	Name string `json:"-"` // of the destination, where attempts of several are listed
}

// OK reports whether the destination accepted the event.
func (a *attemptData) OK() bool { return a.Status == "succeeded" }

// endedAt is when the response was read, or the attempt failed.
func (a *attemptData) endedAt() time.Time {
	return a.StartedAt.Add(time.Duration(a.DurationMS) * time.Millisecond)
}

// Result is the outcome in some words: 503 Service Unavailable, or the code of the error.
func (a *attemptData) Result() string {
	if a.ResponseStatus != nil {
		return strings.TrimSpace(strconv.Itoa(*a.ResponseStatus) + " " + http.StatusText(*a.ResponseStatus))
	}
	if a.ErrorCode != nil {
		return *a.ErrorCode
	}
	return a.Status
}

// Clock is the time of the start within its day.
func (a *attemptData) Clock() string { return a.StartedAt.UTC().Format("15:04:05.000") }

// ResponseBody is the beginning of the body of the response.
func (a *attemptData) ResponseBody() string {
	body := a.Response.Body
	if a.Response.BodyEncoding == "base64" {
		body = "(" + strconv.Itoa(base64.StdEncoding.DecodedLen(len(body))) + " bytes that are not text)"
	}
	if a.Response.Truncated && body != "" {
		body += "\n… (cut)"
	}
	return body
}

// HeaderLines returns names and values of the headers as they were received.
func (e *eventDetail) HeaderLines() [][2]string {
	lines := slices.Clone(e.HeadersRaw)
	for i, text := range e.HeadersBase64 {
		if text == nil || i >= len(lines) {
			continue
		}
		if b, err := base64.StdEncoding.DecodeString(*text); err == nil { // the API encodes it
			lines[i][1] = string(b)
		}
	}
	return lines
}

// bytes returns the body as it was received.
func (e *eventDetail) bytes() []byte {
	if e.BodyEncoding != "base64" {
		return []byte(e.Body)
	}
	b, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil { // the API encodes it
		return nil
	}
	return b
}

// hasNoOutcome reports whether nothing but the event is known: all of its deliveries wait for their first attempt. The
// API returns it like this too, whatever became of it, while only the log has it: the store is behind or unavailable.
func (e *eventDetail) hasNoOutcome() bool {
	hasOutcome := func(d *deliveryData) bool {
		return d.Status != string(event.Pending) || textOf(d.Reason) != string(event.Queued)
	}
	return len(e.Deliveries) > 0 && len(e.Attempts) == 0 && !slices.ContainsFunc(e.Deliveries, hasOutcome)
}

// step is one moment of an event's history.
type step struct{ Status, When, Text string }

// datedStep is a step with its time, by which steps are sorted.
type datedStep struct {
	at time.Time
	step
}

// step returns the entry for the last attempt of an earlier replay.
func (a *attemptData) step(destination string) datedStep {
	status := "failed"
	if a.OK() {
		status = "delivered"
	}
	return datedStep{a.endedAt(), step{Status: status, Text: destination + " " + status}}
}

// runs splits the attempts at a destination: each replay begins with attempt 1 again. Attempts of replays that run at
// the same time are not told apart.
func (d *deliveryData) runs() (all [][]*attemptData) {
	for i, a := range d.Made {
		if i == 0 || a.AttemptNumber == 1 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], a)
	}
	return all
}

// newestRun returns the attempts of the newest replay, or those of the event itself.
func (d *deliveryData) newestRun() []*attemptData {
	if runs := d.runs(); len(runs) > 0 {
		return runs[len(runs)-1]
	}
	return nil
}

// history returns what happened when: the receipt of the event, the last attempt at each destination and of each
// replay, the report of the application, and the attempts to come.
func (e *eventDetail) history(now time.Time) []step {
	var all []datedStep
	for _, d := range e.Deliveries {
		at := e.ReceivedAt
		if n := len(d.Made); n > 0 {
			at = d.Made[n-1].endedAt()
		}
		text := d.Name + " " + d.Status
		if runs := d.runs(); len(runs) > 1 {
			for _, run := range runs[:len(runs)-1] {
				all = append(all, run[len(run)-1].step(d.Name))
			}
			text += " after a replay"
		}
		if d.Reason != nil {
			text += ": " + *d.Reason
		}
		all = append(all, datedStep{at, step{Status: d.Status, Text: text}})
		if d.NextAttemptAt != nil {
			next := d.Name + ", next attempt"
			if !d.NextAttemptAt.After(now) {
				next += " due now"
			}
			all = append(all, datedStep{*d.NextAttemptAt, step{Status: "retrying", Text: next}})
		}
	}
	if r := e.Receipt; r != nil {
		all = append(all, datedStep{r.UpdatedAt, step{Status: "delivered", Text: "application reports " + r.State}})
	}
	slices.SortStableFunc(all, func(a, b datedStep) int { return a.at.Compare(b.at) })
	steps := []step{{cmp.Or(map[bool]string{true: "rejected"}[e.Status == "rejected"], "delivered"),
		e.ReceivedAt.UTC().Format("15:04:05.000"), "received, " + e.Verification}}
	for _, m := range all {
		m.When = after(m.at.Sub(e.ReceivedAt))
		steps = append(steps, m.step)
	}
	return steps
}

// after returns the time since the receipt of an event, in its largest unit.
func after(d time.Duration) string {
	switch {
	case d < time.Second:
		return "+" + strconv.FormatInt(max(0, d.Milliseconds()), 10) + "\u00a0ms"
	case d < time.Minute:
		return "+" + strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "\u00a0s"
	}
	return "+" + strings.TrimSuffix(relative(d), " ago")
}
