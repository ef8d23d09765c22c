package events

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
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
	return ui.TextOf(d.Reason) == string(event.TransformFailed)
}

// failureText is the failure of a transformation as a sentence. Operations are counted from 1, as in the workbench.
func failureText(x *wire.TransformFailure) string {
	if x.Index == nil {
		return fmt.Sprintf("Version %d of the transformation could not be applied: %s", x.TransformationVersion, x.Message)
	}
	return fmt.Sprintf("Operation %d of version %d of the transformation failed at %s: %s", *x.Index+1,
		x.TransformationVersion, ui.PlaceText(x.Pointer), x.Message)
}

// detailsText is what the application reported: its text, or its JSON.
func detailsText(r *wire.Receipt) string {
	var text string
	if json.Unmarshal(r.Details, &text) == nil {
		return text
	}
	return string(r.Details)
}

// attemptData is an attempt as the pages show it.
type attemptData = model.Attempt

// setCurl sets the command that makes the request again. Only the body that the event has is known: not what a
// transformation made of it.
func setCurl(a *attemptData, e *eventDetail) {
	if a.TransformationVersion != 0 || !strings.HasPrefix(a.Request.URL, "http") { // of another kind than a webhook
		return
	}
	var headers [][2]string
	for _, name := range slices.Sorted(maps.Keys(a.Request.Headers)) {
		headers = append(headers, [2]string{name, a.Request.Headers[name]})
	}
	a.Curl = curl(e, a.Request.Method, quoteShell(a.Request.URL), headers)
}

// endedAt is when the response was read, or the attempt failed.
func endedAt(a *attemptData) time.Time {
	return time.Time(a.StartedAt).Add(time.Duration(a.DurationMS) * time.Millisecond)
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
		return d.Status != event.Pending || ui.TextOf(d.Reason) != string(event.Queued)
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
func stepOf(a *attemptData, destination string) datedStep {
	status := "failed"
	if a.OK() {
		status = "delivered"
	}
	return datedStep{endedAt(a), step{Status: status, Text: destination + " " + status}}
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
			at = endedAt(d.Made[n-1])
		}
		text := d.Name + " " + string(d.Status)
		if runs := d.runs(); len(runs) > 1 {
			for _, run := range runs[:len(runs)-1] {
				all = append(all, stepOf(run[len(run)-1], d.Name))
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
	return "+" + strings.TrimSuffix(ui.Relative(d), " ago")
}
