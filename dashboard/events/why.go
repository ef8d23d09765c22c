package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// maxOthers is how many other destinations the sentence about an event names. All are listed below it.
const maxOthers = 4

// sentences builds the text of an event's page about its state.
type sentences struct {
	*ui.Dashboard
	parts []ui.Passage
}

func (s *sentences) text(text string) { s.parts = append(s.parts, ui.Passage{Text: text}) }

func (s *sentences) name(text string) {
	s.parts = append(s.parts, ui.Passage{Text: text, Strong: true})
}

func (s *sentences) at(t time.Time) { s.parts = append(s.parts, ui.Passage{At: s.Moment(t)}) }

// due adds the time of what is planned.
func (s *sentences) due(t web.Time) { s.parts = append(s.parts, ui.Passage{At: s.DueMoment(t)}) }

// why adds a sentence of the API, or a part of it.
func (s *sentences) why(text string, x wire.Why) { s.parts = append(s.parts, s.Prose(text, x)...) }

// explainStatus sets the text about the state of the event: first the delivery that decides it, then the others.
func explainStatus(v *ui.Visit, p *eventPage) {
	lead, others := &sentences{Dashboard: v.Dashboard}, &sentences{Dashboard: v.Dashboard}
	first := p.deciding()
	if p.Reason != nil && p.Status == event.Delivered { // the endpoint only observes signatures
		first = nil
	}
	if first == nil {
		lead.why(ui.Sentence(p.Why), p.WhyDetails)
	} else {
		lead.decide(p, first)
	}
	named := 0
	for _, d := range p.Deliveries {
		if d == first {
			continue
		}
		if named++; named <= maxOthers {
			others.summarize(d)
		}
	}
	if named > maxOthers {
		others.text(fmt.Sprintf("%d more are listed below. ", named-maxOthers))
	}
	if p.Receipt != nil {
		others.text("The application reported it " + string(p.Receipt.State) + ".")
	}
	p.Lead, p.Others = lead.parts, others.parts
}

// deciding is the delivery that has the state of the event, nil if there is none: one that gets another attempt rather
// than one that gets none, and the one with the next attempt first. The API decides alike; see decidingDelivery there.
func (p *eventPage) deciding() (found *deliveryData) {
	status := p.Status
	if p.Held() {
		status = event.Held
	}
	for _, d := range p.Deliveries {
		if d.Status != status {
			continue
		}
		if found != nil && d.halted() != found.halted() {
			if found.halted() {
				found = d
			}
			continue
		}
		if found == nil || !d.NextAttemptAt.IsZero() && (found.NextAttemptAt.IsZero() ||
			time.Time(d.NextAttemptAt).Before(time.Time(found.NextAttemptAt))) {
			found = d
		}
	}
	return found
}

func (d *deliveryData) halted() bool { return d.WhyDetails.Halt(d.Status) != "" }

// decide says what the delivery d, which decides the state of the event, waits for or came to.
func (s *sentences) decide(p *eventPage, d *deliveryData) {
	s.text(ui.Capital(string(d.Status)) + ": ")
	s.name(d.Name)
	run := d.newestRun()
	failures := slices.DeleteFunc(slices.Clone(run), (*attemptData).OK)
	switch {
	case d.Status == event.Delivered && len(d.Made) > 0:
		last := d.Made[len(d.Made)-1]
		s.text(" " + outcomeOf(last) + " at ")
		s.at(endedAt(last))
	case len(failures) == 0:
		s.text(": ")
		text, ok := withoutStatus(d.WhyDetails, d.Status)
		if !ok {
			text = d.Why
		}
		s.why(text, d.WhyDetails)
	default:
		s.text(" " + causes(failures) + " in " + attemptCount(run[len(run)-1].AttemptNumber, p.MaxAttempts))
		if d.Status == event.Retrying && !d.NextAttemptAt.IsZero() {
			s.text(". The next is at ")
			s.due(d.NextAttemptAt)
		} else if reason := d.besideAttempts(); reason != "" {
			s.text("; ")
			s.why(reason, d.WhyDetails)
		}
	}
	s.text(".")
}

// summarize says in a sentence what became of the event at another destination.
func (s *sentences) summarize(d *deliveryData) {
	s.name(d.Name)
	if n := len(d.Made); d.Status == event.Delivered && n > 0 {
		s.text(" has it since ")
		s.at(endedAt(d.Made[n-1]))
	} else {
		s.text(": ")
		s.why(d.Why, d.WhyDetails)
	}
	s.text(". ")
}

// withoutStatus is an explanation without the state that it begins with; ok is false if it begins with none.
func withoutStatus(x wire.Why, of event.Status) (rest string, ok bool) {
	lead, rest := x.Parts(of)
	return rest, lead == string(of) && rest != ""
}

// besideAttempts is what is known of a delivery beside its attempts: what halts it, or its reason. Empty if that is
// nothing.
func (d *deliveryData) besideAttempts() string {
	x := d.WhyDetails
	if halt := x.Halt(d.Status); x.Code == wire.HaltPayloadErased && halt != "" {
		return d.Why
	} else if halt != "" {
		return halt
	}
	if d.TransformFailure == nil {
		x.Cause = nil
	}
	if reason, ok := withoutStatus(x, d.Status); ok {
		return reason
	}
	return ""
}

func attemptCount(made, most int) string {
	if most == 0 || made > most { // the policy is not known, or was another one
		return ui.Plural(made, "attempt", "attempts")
	}
	return fmt.Sprintf("%d of %s", made, ui.Plural(most, "attempt", "attempts"))
}

// causes says how attempts failed, without repeating itself: answered 503 or timed out.
func causes(failures []*attemptData) string {
	var all []string
	for _, a := range failures {
		if text := outcomeOf(a); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) > 2 {
		return all[len(all)-1] + " or failed otherwise"
	}
	return strings.Join(all, " or ")
}

// outcome says what the destination did, as the rest of a sentence that begins with its name.
func outcomeOf(a *attemptData) string {
	code := ui.TextOf(a.ErrorCode)
	switch {
	case ui.KnownText("outcome", code) != "":
		return ui.KnownText("outcome", code)
	case a.ResponseStatus != nil:
		return "answered " + strconv.Itoa(*a.ResponseStatus)
	case code != "":
		return "failed (" + code + ")"
	}
	return a.Status
}
