package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxOthers is how many other destinations the sentence about an event names. All are listed below it.
const maxOthers = 4

// sentences builds the text of an event's page about its state.
type sentences struct {
	*Dashboard
	parts []passage
	err   error // the first one
}

func (s *sentences) text(text string) { s.parts = append(s.parts, passage{Text: text}) }
func (s *sentences) name(text string) { s.parts = append(s.parts, passage{Text: text, Strong: true}) }

func (s *sentences) at(t time.Time) { s.add(s.moment(t)) }

// due adds the time of what is planned.
func (s *sentences) due(t time.Time) { s.add(s.dueMoment(t)) }

func (s *sentences) add(m moment, err error) {
	s.parts, s.err = append(s.parts, passage{At: m}), firstError(s.err, err)
}

// why adds a sentence of the API.
func (s *sentences) why(text string) {
	parts, err := s.prose(text)
	s.parts, s.err = append(s.parts, parts...), firstError(s.err, err)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// explainStatus sets the text about the state of the event: first the delivery that decides it, then the others.
func explainStatus(v *visit, p *eventPage) error {
	lead, others := &sentences{Dashboard: v.Dashboard}, &sentences{Dashboard: v.Dashboard}
	first := p.deciding()
	if p.Reason != nil && p.Status == "delivered" { // the endpoint only observes signatures
		first = nil
	}
	if first == nil {
		lead.why(sentence(p.Why))
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
		others.text("The application reported it " + p.Receipt.State + ".")
	}
	p.Lead, p.Others = lead.parts, others.parts
	return firstError(lead.err, others.err)
}

// deciding is the delivery that has the state of the event, the one with the next attempt first; nil if there is none.
func (p *eventPage) deciding() (found *deliveryData) {
	status := p.Status
	if p.Held() {
		status = "held"
	}
	for _, d := range p.Deliveries {
		if d.Status != status {
			continue
		}
		sooner := found == nil || d.NextAttemptAt != nil &&
			(found.NextAttemptAt == nil || d.NextAttemptAt.Before(*found.NextAttemptAt))
		if sooner {
			found = d
		}
	}
	return found
}

// decide says what the delivery d, which decides the state of the event, waits for or came to.
func (s *sentences) decide(p *eventPage, d *deliveryData) {
	s.text(capital(d.Status) + ": ")
	s.name(d.Name)
	run := d.newestRun()
	failures := slices.DeleteFunc(slices.Clone(run), (*attemptData).OK)
	switch {
	case d.Status == "delivered" && len(d.Made) > 0:
		last := d.Made[len(d.Made)-1]
		s.text(" " + last.outcome() + " at ")
		s.at(last.endedAt())
		s.text(".")
	case len(failures) == 0:
		s.text(": ")
		s.why(withoutStatus(d) + ".")
	default:
		s.text(" " + causes(failures) + " in " + attemptCount(run[len(run)-1].AttemptNumber, p.MaxAttempts))
		if d.Status == "retrying" && d.NextAttemptAt != nil {
			s.text(". The next is at ")
			s.due(*d.NextAttemptAt)
		} else if p.PayloadErasedAt != nil && isOpen(d.Status) {
			s.text("; ")
			s.why(d.Why)
		} else if halt := d.halt(); halt != "" {
			s.text("; ")
			s.why(halt)
		} else if reason := reasonOf(d); reason != "" {
			s.text("; ")
			s.why(reason)
		}
		s.text(".")
	}
}

// summarize says in a sentence what became of the event at another destination.
func (s *sentences) summarize(d *deliveryData) {
	s.name(d.Name)
	if n := len(d.Made); d.Status == "delivered" && n > 0 {
		s.text(" has it since ")
		s.at(d.Made[n-1].endedAt())
	} else {
		s.text(": ")
		s.why(d.Why)
	}
	s.text(". ")
}

// withoutStatus is the explanation of a delivery without its state, which stands before it.
func withoutStatus(d *deliveryData) string { return strings.TrimPrefix(d.Why, d.Status+": ") }

// reasonOf is what the API says of a delivery beside its last attempt; empty if it says nothing else.
func reasonOf(d *deliveryData) string {
	text, found := strings.CutPrefix(d.Why, d.Status+": ")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "; attempt ")
	return text
}

func attemptCount(made, most int) string {
	if most == 0 || made > most { // the policy is not known, or was another one
		return plural(made, "attempt", "attempts")
	}
	return fmt.Sprintf("%d of %s", made, plural(most, "attempt", "attempts"))
}

// causes says how attempts failed, without repeating itself: answered 503 or timed out.
func causes(failures []*attemptData) string {
	var all []string
	for _, a := range failures {
		if text := a.outcome(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) > 2 {
		return all[len(all)-1] + " or failed otherwise"
	}
	return strings.Join(all, " or ")
}

// outcome says what the destination did, as the rest of a sentence that begins with its name.
func (a *attemptData) outcome() string {
	code := textOf(a.ErrorCode)
	switch {
	case words["outcome"][code] != "":
		return words["outcome"][code]
	case a.ResponseStatus != nil:
		return "answered " + strconv.Itoa(*a.ResponseStatus)
	case code != "":
		return "failed (" + code + ")"
	}
	return a.Status
}
