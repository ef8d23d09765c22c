package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
)

// Messages about findings. The alert that holds a message is written together with the finding, in one record, so
// there is one message for each transition. At most findingSlots of them an hour are messages of their own; each takes
// a slot, an alert that may be used again after an hour. The last urgentSlots are for findings that nobody can make up.
// The others are counted by one more alert, which becomes the digest. Messages about tripwires are outside that limit,
// and unverified reports have one of their own.

const (
	findingSlots = 20 // messages about one finding in findingEvery, on all nodes together
	urgentSlots  = 5  // of them, only for urgent findings
	// findingEvery is how long a slot is taken, and the pause between two digests, or messages about unverified reports.
	findingEvery = time.Hour
	// findingDigestDelay is how long the first digest gathers findings that are opened together.
	findingDigestDelay = 2 * time.Minute

	findingPrefix = "finding/" // of the ids of slots
	findingDigest = "finding.many"

	findingType    = "alert.finding." // followed by opened, reopened, unverified or many
	tripwireType   = "alert.tripwire.tripped"
	unverifiedType = findingType + "unverified"
	manyType       = findingType + "many"
)

// Bounds of what a digest names.
const (
	maxGroups      = 10 // groups that a digest counts apart
	maxNamedGroups = 5  // of them, those that the message names
)

// findingRule is the name of the rule in the settings.
const findingRule = "finding"

// Announce returns what builds the message about a transition of a finding; see config.Announcer. It returns no message
// while the rule is off, for findings below the rule's severity, and without channels.
func (a *Alerts) Announce(t finding.Transition) config.Announcer {
	return func(f *leak.Finding, stored func(id string) *alerting.Alert) *config.FindingNotice {
		s, now := a.deps.Config.AlertSettings(), a.now()
		least, err := finding.ParseSeverity(s.Rules.Finding.MinSeverity)
		to := targets(s, alerting.EndpointAlerts{})
		if !s.Rules.Finding.Enabled || err != nil || f.Severity < least || len(to) == 0 {
			return nil
		}
		if t == finding.Continued {
			t = finding.Opened // people get the same message once more
		}
		n := a.newNotice(findingType+string(t), evaluation{value: f.Severity.String(), threshold: least.String()}, to, now)
		n.Finding = f.ID
		firedBefore := func(id string, pause time.Duration) bool {
			x := stored(id)
			return x != nil && now.Sub(x.FiredAt) < pause
		}
		single := func(id string, pause time.Duration) *config.FindingNotice {
			if firedBefore(id, pause) {
				return nil
			}
			return &config.FindingNotice{Alert: id, Write: func(x *alerting.Alert) { addNotice(x, n, now) }}
		}
		switch {
		case f.Kind == finding.Tripwire && !f.Test:
			n.Type, n.Tripwire = tripwireType, f.TripwireID
			alert := "tripwire.tripped/"
			if f.Severity < finding.Critical { // it was seen: that must not delay the message that it is used
				alert = "tripwire.seen/"
			}
			return single(alert+n.Tripwire, time.Duration(s.CooldownSeconds)*time.Second)
		case f.Unverified:
			n.Type = unverifiedType
			return single("finding.unverified/"+f.First.Sender, findingEvery)
		}
		for _, i := range slotsOf(f) {
			if one := single(fmt.Sprintf("%s%02d", findingPrefix, i), findingEvery); one != nil {
				return one
			}
		}
		n.Type, n.Finding = manyType, ""
		group := alerting.FindingGroup{Severity: f.Severity, Rule: f.Rule, App: f.First.Label, Count: 1}
		return &config.FindingNotice{Alert: findingDigest, Write: func(x *alerting.Alert) { countInDigest(x, n, group, now) }}
	}
}

// slotsOf returns the slots that the message about a finding may take, in their order. All are open to urgent findings,
// those of our own API keys, critical ones and floods: made-up keys must not use up their messages.
func slotsOf(f *leak.Finding) []int {
	all := make([]int, findingSlots)
	for i := range all {
		all[i] = i
	}
	if f.KeyID == "" && f.Severity < finding.Critical && f.Rule != finding.RuleFlood {
		return all[:findingSlots-urgentSlots]
	}
	slices.Reverse(all)
	return all
}

// addNotice adds a notice to an alert, which is resolved at once: nothing would resolve it later.
func addNotice(x *alerting.Alert, n alerting.AlertNotice, now time.Time) {
	x.Rule, x.Subject, x.Since, x.FiredAt = findingRule, n.Finding, now, now
	x.Notices = append(x.Notices, n)
}

// countInDigest counts a finding in the digest that still gathers, or begins one, which is due an hour after the last.
func countInDigest(x *alerting.Alert, n alerting.AlertNotice, group alerting.FindingGroup, now time.Time) {
	if i := slices.IndexFunc(x.Notices, gathers); i >= 0 {
		x.Notices[i].Count++
		x.Notices[i].Groups = addToGroups(x.Notices[i].Groups, group)
		return
	}
	n.Count, n.Groups, n.NextAt = 1, []alerting.FindingGroup{group}, now.Add(findingDigestDelay)
	if due := x.FiredAt.Add(findingEvery); due.After(n.NextAt) {
		n.NextAt = due
	}
	x.Rule, x.Since, x.FiredAt = findingRule, now, n.NextAt
	x.Notices = append(x.Notices, n)
}

// addToGroups counts a finding in the groups of a digest, worst first. When there are maxGroups, a new group takes the
// place of a less severe one.
func addToGroups(groups []alerting.FindingGroup, added alerting.FindingGroup) []alerting.FindingGroup {
	i := slices.IndexFunc(groups, func(g alerting.FindingGroup) bool {
		return g.Rule == added.Rule && g.Severity == added.Severity
	})
	switch last := len(groups) - 1; {
	case i >= 0:
		groups[i].Count++
	case len(groups) < maxGroups:
		groups = append(groups, added)
	case groups[last].Severity < added.Severity:
		groups[last] = added
	}
	slices.SortStableFunc(groups, func(a, b alerting.FindingGroup) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Count, a.Count))
	})
	return groups
}

// gathers reports whether a notice is a digest that is not being sent yet: its count may still grow.
func gathers(n alerting.AlertNotice) bool { return n.Type == manyType && n.Begun == "" }

// isAboutFinding reports whether a notice is about findings.
func isAboutFinding(n alerting.AlertNotice) bool {
	return strings.HasPrefix(n.Type, findingType) || n.Type == tripwireType
}

// findingHeadline returns one line that says what happened.
func findingHeadline(n alerting.AlertNotice) string {
	switch n.Type {
	case manyType:
		return fmt.Sprintf("%d more findings were opened", n.Count)
	case unverifiedType:
		return "Unverified reports name leaked secrets"
	case tripwireType:
		return "A tripwire was touched"
	case findingType + string(finding.Reopened):
		return "A finding is open again"
	default:
		return "A leaked secret was found"
	}
}

// findingFacts adds what is known of the finding of a notice as facts, and returns the name of its rule.
func (nf *notifier) findingFacts(n alerting.AlertNotice, fact func(string, any)) (rule string) {
	for _, g := range n.Groups[:min(len(n.Groups), maxNamedGroups)] {
		name := fmt.Sprintf("%s, %s", g.Rule, g.Severity)
		if g.App != "" {
			name += ", first in " + g.App
		}
		fact(name, g.Count)
	}
	f, presence := nf.deps.Config.Finding(n.Finding)
	if presence != entity.Present {
		return ""
	}
	fact("Severity", f.Severity.String())
	fact("Secret", f.Masked)
	fact("Source", string(f.First.Source)+" "+f.First.Sender)
	fact("Application", f.First.Label)
	fact("Our API key", f.KeyID)
	if f.Rule == finding.RuleFlood {
		return "more secrets than a sender may report, which hides some of them"
	}
	return f.Rule
}

// findingLink returns the page of a notice about findings.
func (nf *notifier) findingLink(n alerting.AlertNotice) string {
	link := nf.cfg.BaseURL + "/app/findings"
	if _, err := id.Parse(finding.Prefix, n.Finding); err != nil {
		return link
	}
	return link + "/" + n.Finding
}
