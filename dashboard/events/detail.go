package events

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/event"
)

// eventDetail is one event.
type eventDetail struct {
	wire.Event
	Attempts   []*attemptData  `json:"attempts"`
	Deliveries []*deliveryData `json:"deliveries"`
}

// Captured reports whether the event was stored and had no destination to go to.
func (e *eventDetail) Captured() bool { return model.IsCaptured(&e.EventBase, len(e.Deliveries)) }

// Held reports whether the event waits at every destination where it is open.
func (e *eventDetail) Held() bool {
	all := make([]event.Status, len(e.Deliveries))
	for i, d := range e.Deliveries {
		all[i] = d.Status
	}
	return model.IsHeld(&e.EventBase, all)
}

// deliveryData is a delivery with what the page knows of its destination.
type deliveryData struct {
	wire.Delivery
	Name    string         `json:"-"` // of the destination; its id if it was deleted
	Address string         `json:"-"` // of the destination, if Name does not say it
	Made    []*attemptData `json:"-"` // the newest of its attempts, oldest first
	Open    bool           `json:"-"` // it is shown with its attempts
}

func (d *deliveryData) Explanation() (string, wire.Why) { return d.Why, d.WhyDetails }

// TransformFailed reports whether the endpoint's transformation could not be applied. The workbench can say why.
func (d *deliveryData) TransformFailed() bool {
	return frame.TextOf(d.Reason) == string(event.TransformFailed)
}

// failureText is the failure of a transformation as a sentence. Operations are counted from 1, as in the workbench.
func failureText(x *wire.TransformFailure) string {
	if x.Index == nil {
		return fmt.Sprintf("Version %d of the transformation could not be applied: %s", x.TransformationVersion, x.Message)
	}
	return fmt.Sprintf("Operation %d of version %d of the transformation failed at %s: %s", *x.Index+1,
		x.TransformationVersion, frame.PlaceText(x.Pointer), x.Message)
}

// detailsText is what the application reported: its text, or its JSON.
func detailsText(r *wire.Receipt) string {
	var text string
	if json.Unmarshal(r.Details, &text) == nil {
		return text
	}
	return string(r.Details)
}

type attemptData struct {
	wire.Attempt
	Name string `json:"-"` // of the destination, where attempts of several are listed
	Open bool   `json:"-"` // it is shown with its request and response
	// SameAs is the number of the attempt before it, whose request headers it has but for those in Changed; 0: there is
	// none, or most headers differ.
	SameAs  int               `json:"-"`
	Changed map[string]string `json:"-"`
	// Curl is a command that makes the request again, for the newest attempt of a delivery; may be empty.
	Curl string `json:"-"`
}

// setCurl sets the command that makes the request again. Only the body that the event has is known: not what a
// transformation made of it.
func (a *attemptData) setCurl(e *eventDetail) {
	if a.TransformationVersion != 0 || !strings.HasPrefix(a.Request.URL, "http") { // of another kind than a webhook
		return
	}
	var headers [][2]string
	for _, name := range slices.Sorted(maps.Keys(a.Request.Headers)) {
		headers = append(headers, [2]string{name, a.Request.Headers[name]})
	}
	a.Curl = curl(e, a.Request.Method, quoteShell(a.Request.URL), headers)
}

// compareAttempts finds what the request headers of each attempt have in common with those of the one before, and opens
// the newest if it has failed.
func compareAttempts(all []*attemptData) {
	for i, a := range all {
		if i == 0 {
			continue
		}
		before := all[i-1]
		changed, alike := map[string]string{}, len(before.Request.Headers) == len(a.Request.Headers)
		for name, value := range a.Request.Headers {
			was, known := before.Request.Headers[name]
			if alike = alike && known; was != value {
				changed[name] = value
			}
		}
		if alike && 2*len(changed) < len(a.Request.Headers) {
			a.SameAs, a.Changed = before.AttemptNumber, changed
		}
	}
	if n := len(all); n > 0 {
		all[n-1].Open = !all[n-1].OK()
	}
}

// Took is the duration of the request.
func (a *attemptData) Took() string {
	if a.DurationMS < 1 {
		return "<\u00a01\u00a0ms"
	}
	return frame.Number(a.DurationMS) + "\u00a0ms"
}

// OK reports whether the destination accepted the event.
func (a *attemptData) OK() bool { return a.Status == "succeeded" }

// endedAt is when the response was read, or the attempt failed.
func (a *attemptData) endedAt() time.Time {
	return time.Time(a.StartedAt).Add(time.Duration(a.DurationMS) * time.Millisecond)
}

// Result is the outcome in some words: 503 Service Unavailable, or the code of the error.
func (a *attemptData) Result() string {
	if a.ResponseStatus != nil {
		return strings.TrimSpace(strconv.Itoa(*a.ResponseStatus) + " " + http.StatusText(*a.ResponseStatus))
	}
	if a.ErrorCode != nil {
		return string(*a.ErrorCode)
	}
	return a.Status
}

// Clock is the time of the start within its day.
func (a *attemptData) Clock() string { return time.Time(a.StartedAt).UTC().Format("15:04:05.000") }

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
		return d.Status != event.Pending || frame.TextOf(d.Reason) != string(event.Queued)
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
		at := time.Time(e.ReceivedAt)
		if n := len(d.Made); n > 0 {
			at = d.Made[n-1].endedAt()
		}
		text := d.Name + " " + string(d.Status)
		if runs := d.runs(); len(runs) > 1 {
			for _, run := range runs[:len(runs)-1] {
				all = append(all, run[len(run)-1].step(d.Name))
			}
			text += " after a replay"
		}
		if d.Reason != nil {
			text += ": " + string(*d.Reason)
		}
		all = append(all, datedStep{at, step{Status: string(d.Status), Text: text}})
		if due := time.Time(d.NextAttemptAt); !due.IsZero() {
			next := d.Name + ", next attempt"
			if !due.After(now) {
				next += " due now"
			}
			all = append(all, datedStep{due, step{Status: "retrying", Text: next}})
		}
	}
	if r := e.Receipt; r != nil {
		all = append(all, datedStep{time.Time(r.UpdatedAt), step{Status: "delivered",
			Text: "application reports " + string(r.State)}})
	}
	slices.SortStableFunc(all, func(a, b datedStep) int { return a.at.Compare(b.at) })
	steps := []step{{cmp.Or(map[bool]string{true: "rejected"}[e.Status == "rejected"], "delivered"),
		time.Time(e.ReceivedAt).UTC().Format("15:04:05.000"), "received, " + string(e.Verification)}}
	for _, m := range all {
		m.When = after(m.at.Sub(time.Time(e.ReceivedAt)))
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
	return "+" + strings.TrimSuffix(frame.Relative(d), " ago")
}
