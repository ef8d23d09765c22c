package intake

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
)

// NewFindingsSpan is how long the sets of Bounds.Findings last: longer than the day that is part of their keys.
const NewFindingsSpan = 25 * time.Hour

// Limits bound the new findings of a sender and UTC day, those of our own API keys apart: somebody who can make up keys
// must not hide them, nor severe findings behind others, nor those of one rule behind another's.
type Limits struct {
	Severe int // severity high or critical
	Minor  int // the others
	OfRule int // of each rule in any case, beyond these two; all rules of customers are one
}

// Bounds admits hits of new findings. Configuration.RemainingFindings has the bounds of the account.
type Bounds struct {
	Config   Configuration
	Findings Distinct // new findings of each sender and day
}

// Admit returns the hits to produce, of one sender and request: those of known findings, of our own API keys, and of
// new findings within the limits. Severe ones come first, then those of rules with few of them. beyond is the number of
// the other secrets, which the caller counts in the one finding of the sender whose rule is flood.
func (b Bounds) Admit(ctx context.Context, most Limits, hits []*finding.Hit) (records []*finding.Hit, beyond uint64) {
	admitted := b.admitted(ctx, most, hits)
	for _, x := range hits {
		if admitted[x.Finding] {
			records = append(records, x)
		} else {
			beyond += uint64(x.N)
		}
	}
	return records, beyond
}

// admitted returns the findings whose hits are produced.
func (b Bounds) admitted(ctx context.Context, most Limits, hits []*finding.Hit) map[string]bool {
	admitted := make(map[string]bool, len(hits))
	type newFinding struct {
		*finding.Hit
		nth int // of its rule
	}
	var added []newFinding
	ofRule := map[string]int{}
	for _, x := range hits {
		if _, seen := admitted[x.Finding]; seen {
			continue
		}
		admitted[x.Finding] = x.KeyID != "" || x.Kind == finding.Tripwire || b.Config.HasFinding(x.Finding)
		if !admitted[x.Finding] {
			added = append(added, newFinding{x, ofRule[x.Rule]})
			ofRule[x.Rule]++
		}
	}
	slices.SortStableFunc(added, func(a, b newFinding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.nth, b.nth))
	})
	var severe, minor []*finding.Hit
	for _, x := range added {
		if x.Severity >= finding.High {
			severe = append(severe, x.Hit)
		} else {
			minor = append(minor, x.Hit)
		}
	}
	b.admitNew(ctx, "severe", severe, most.Severe, most.OfRule, admitted)
	b.admitNew(ctx, "minor", minor, most.Minor, most.OfRule, admitted)
	return admitted
}

// admitNew marks those of some new findings as admitted that are within the bounds. Each hit is of another finding.
func (b Bounds) admitNew(ctx context.Context, class string, added []*finding.Hit, most, ofRule int,
	admitted map[string]bool) {
	if len(added) == 0 {
		return
	}
	day := added[0].Sender + " " + added[0].At.Format(time.DateOnly)
	added = added[:min(len(added), b.Config.RemainingFindings(added[0].Sender, added[0].Severity))]
	admit := func(set string, list []*finding.Hit, most int) {
		ids := make([]string, len(list))
		for i, x := range list {
			ids[i] = x.Finding
		}
		for i, ok := range b.Findings.Admit(ctx, day+" "+set, ids, most) {
			admitted[ids[i]] = ok
		}
	}
	admit(class, added, most)
	byRule := map[string][]*finding.Hit{}
	for _, x := range added {
		if !admitted[x.Finding] && ofRule > 0 {
			rule := x.Rule
			if strings.HasPrefix(rule, finding.CustomPrefix) {
				rule = finding.CustomPrefix
			}
			byRule[rule] = append(byRule[rule], x)
		}
	}
	for rule, list := range byRule {
		admit("rule "+rule, list, ofRule)
	}
}

// Slots bounds the requests that run at the same time, by what they belong to: the node, a sender, an address.
type Slots struct {
	mu sync.Mutex // guards what follows
	of map[any]*share
}

// share is what the requests that belong to something have together.
type share struct {
	n    int
	turn chan struct{}
}

// Bound is how many requests may run that belong to something. Full is the error of one more.
type Bound struct {
	Of   any
	Most int
	Full error
}

// Enter takes a slot, or returns the error of the first bound that is reached. Call leave once. turn has room for one
// element, and is the same for all requests that belong to the same as this one by its first bound.
func (s *Slots) Enter(bounds ...Bound) (turn chan struct{}, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[any]*share{}
	}
	for _, b := range bounds {
		if of := s.of[b.Of]; of != nil && of.n >= b.Most {
			return nil, nil, b.Full
		}
	}
	for _, b := range bounds {
		if s.of[b.Of] == nil {
			s.of[b.Of] = &share{turn: make(chan struct{}, 1)}
		}
		s.of[b.Of].n++
	}
	return s.of[bounds[0].Of].turn, func() { s.leave(bounds) }, nil
}

func (s *Slots) leave(bounds []Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		if s.of[b.Of].n--; s.of[b.Of].n == 0 {
			delete(s.of, b.Of)
		}
	}
}
