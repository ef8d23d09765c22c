package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
)

// Messages about findings. The alert that holds a message is written together with the finding, in one record, so
// there is one message for each transition. At most findingSlots of them an hour are messages of their own; each takes
// a slot, an alert that may be used again after an hour. The others are counted by one more alert, which becomes the
// digest. Messages about tripwires are outside that limit, and unverified reports have one of their own.

const (
	findingSlots = 20 // messages about one finding in findingEvery, on all nodes together
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

// findingRule is the name of the rule in the settings.
const findingRule = "finding"

// Announce returns what builds the message about a transition of a finding; see config.Announcer. It returns no message
// while the rule is off, for findings below the rule's severity, and without channels.
func (a *Alerts) Announce(t finding.Transition) config.Announcer {
	return func(f *config.Finding, stored func(id string) *config.Alert) *config.FindingNotice {
		s, now := a.deps.Config.AlertSettings(), a.now()
		least, err := finding.ParseSeverity(s.Rules.Finding.MinSeverity)
		to := targets(s, config.EndpointAlerts{})
		if !s.Rules.Finding.Enabled || err != nil || f.Severity < least || len(to) == 0 {
			return nil
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
			return &config.FindingNotice{Alert: id, Write: func(x *config.Alert) { addNotice(x, n, now) }}
		}
		switch {
		case f.Kind == finding.Tripwire && f.First.Source == finding.FromTripwire:
			n.Type, n.Tripwire = tripwireType, f.First.Sender
			return single("tripwire.tripped/"+f.First.Sender, time.Duration(s.CooldownSeconds)*time.Second)
		case f.Unverified:
			n.Type = unverifiedType
			return single("finding.unverified/"+f.First.Sender, findingEvery)
		}
		for i := range findingSlots {
			if one := single(fmt.Sprintf("%s%02d", findingPrefix, i), findingEvery); one != nil {
				return one
			}
		}
		n.Type, n.Finding = manyType, ""
		return &config.FindingNotice{Alert: findingDigest, Write: func(x *config.Alert) { countInDigest(x, n, now) }}
	}
}

// addNotice adds a notice to an alert, which is resolved at once: nothing would resolve it later.
func addNotice(x *config.Alert, n config.AlertNotice, now time.Time) {
	x.Rule, x.Subject, x.Since, x.FiredAt = findingRule, n.Finding, now, now
	x.Notices = append(x.Notices, n)
}

// countInDigest counts a finding in the digest that still gathers, or begins one, which is due an hour after the last.
func countInDigest(x *config.Alert, n config.AlertNotice, now time.Time) {
	if i := slices.IndexFunc(x.Notices, gathers); i >= 0 {
		x.Notices[i].Count++
		return
	}
	n.Count, n.NextAt = 1, now.Add(findingDigestDelay)
	if due := x.FiredAt.Add(findingEvery); due.After(n.NextAt) {
		n.NextAt = due
	}
	n.LeaseNode, n.LeaseUntil = "", time.Time{}
	x.Rule, x.Since, x.FiredAt = findingRule, now, n.NextAt
	x.Notices = append(x.Notices, n)
}

// gathers reports whether a notice is a digest that no node has begun to send: its count may still grow.
func gathers(n config.AlertNotice) bool { return n.Type == manyType && n.LeaseNode == "" }

// isAboutFinding reports whether a notice is about findings.
func isAboutFinding(n config.AlertNotice) bool {
	return strings.HasPrefix(n.Type, findingType) || n.Type == tripwireType
}

// findingHeadline returns one line that says what happened.
func findingHeadline(n config.AlertNotice) string {
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
func (nf *notifier) findingFacts(n config.AlertNotice, fact func(string, any)) (rule string) {
	f, presence := nf.deps.Notices.Finding(n.Finding)
	if presence != config.Present {
		return ""
	}
	fact("Severity", f.Severity.String())
	fact("Secret", f.Masked)
	fact("Source", string(f.First.Source)+" "+f.First.Sender)
	fact("Application", f.First.Label)
	fact("Our API key", f.KeyID)
	return f.Rule
}

// findingLink returns the page of a notice about findings.
func (nf *notifier) findingLink(n config.AlertNotice) string {
	link := nf.cfg.BaseURL + "/app/findings"
	if _, err := id.Parse(finding.Prefix, n.Finding); err != nil {
		return link
	}
	return link + "/" + n.Finding
}
