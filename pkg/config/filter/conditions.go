package filter

import (
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/expr"
)

// Conditions are those of all destinations of an endpoint, beside the types. They never change.
type Conditions struct {
	filters []*Filter
	body    *BodyFilters
	rules   []rules
}

// rules are the compiled When and Match of one filter.
type rules struct {
	when  *expr.Program
	match *expr.Match
	err   error // a newer version has written them
}

// Weights of a rule beside a condition on the body, which has 1: about what they take in memory.
const ruleWeight = 50

// NewConditions compiles the conditions of filters, one for each destination; nil: it has none.
func NewConditions(filters []*Filter) *Conditions {
	c := &Conditions{filters: filters, body: NewBodyFilters(filters), rules: make([]rules, len(filters))}
	for i, f := range filters {
		if f == nil {
			continue
		}
		r := &c.rules[i]
		if f.When != "" {
			r.when, r.err = expr.Compile(f.When, expr.Bool)
		}
		if len(f.Match) > 0 {
			var err error
			r.match, err = expr.ParseMatch(f.Match)
			r.err = errors.Join(r.err, err)
		}
	}
	return c
}

// ValidateRules reports whether Match and When can be compiled.
func (f *Filter) ValidateRules() error {
	if err := NewConditions([]*Filter{f}).rules[0].err; err != nil {
		return fmt.Errorf("filter.match or filter.when: %w", err)
	}
	return nil
}

// Weight is about the number of conditions.
func (c *Conditions) Weight() int {
	n := c.body.conditions
	for _, r := range c.rules {
		if r.when != nil || r.match != nil {
			n += ruleWeight
		}
	}
	return n
}

// Hold reports for each destination, in order, whether an event of a tenant ("" = the account) meets its conditions.
// failed is nil, or has for some destinations why that cannot be said; then hold is true.
func (c *Conditions) Hold(ev *event.Event, tenant string) (hold []bool, failed []error) {
	hold = c.body.Match(ev.Body)
	in := expr.NewInput(ev, tenant)
	for i := range c.rules {
		if !hold[i] {
			continue
		}
		holds, err := c.rules[i].hold(in)
		hold[i] = holds || err != nil
		if err != nil {
			if failed == nil {
				failed = make([]error, len(c.rules))
			}
			failed[i] = err
		}
	}
	return hold, failed
}

// HoldFor is Hold for one destination.
func (c *Conditions) HoldFor(i int, ev *event.Event, tenant string) (bool, error) {
	if f := c.filters[i]; f != nil && len(f.Body) > 0 && !NewBodyFilters([]*Filter{f}).Match(ev.Body)[0] {
		return false, nil
	}
	return c.rules[i].hold(expr.NewInput(ev, tenant))
}

// hold evaluates the rules. A condition on what the event does not have does not hold.
func (r *rules) hold(in *expr.Input) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	if r.match != nil {
		if holds, err := r.match.Holds(in); !holds || err != nil {
			return false, err
		}
	}
	if r.when == nil {
		return true, nil
	}
	holds, err := r.when.Bool(in)
	if failure := (*expr.Error)(nil); errors.As(err, &failure) && failure.Missing() {
		return false, nil
	}
	return holds, err
}
