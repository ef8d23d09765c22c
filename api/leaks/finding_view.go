package leaks

import (
	"cmp"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// names of rules that are not about a kind of key.
var ruleNames = map[string]string{
	finding.RuleFlood:    "More secrets than a sender may report",
	finding.RuleTripwire: "A tripwire was touched",
}

// view joins the state of a finding with its hits. Locations and occurrences are the store's; what a finding is, and
// how bad, the configuration decides.
func (a *findings) view(f *leak.Finding, row *finding.Row) *wire.Finding {
	v := &wire.Finding{
		ID: f.ID, Object: "finding", Kind: f.Kind, Rule: f.Rule, Severity: f.Severity.String(),
		Status: f.Status, Masked: frame.OrNull(f.Masked), Fingerprint: frame.OrNull(f.Fingerprint), Sources: row.Sources,
		FirstSeen: web.Time(row.FirstSeen), LastSeen: web.Time(row.LastSeen), Occurrences: row.Occurrences,
		Unverified: f.Unverified, Test: f.Test, KeyID: frame.OrNull(f.KeyID), Environment: frame.OrNull(row.Environment),
		Release: frame.OrNull(row.Release), Locations: make([]wire.FindingLocation, len(row.Locations)),
		Resolution: frame.OrNull(f.Resolution), IgnoreReason: frame.OrNull(f.IgnoreReason),
		IgnoreUntil: web.Time(f.IgnoreUntil),
		ResolvedAt:  web.Time(f.ResolvedAt), RegressedAt: web.Time(f.RegressedAt), Note: frame.OrNull(f.Note),
		UpdatedBy: frame.OrNull(f.UpdatedBy), Version: f.Version,
	}
	provider, docs := "", ""
	v.Name, provider, docs = a.describeRule(f)
	v.Provider, v.DocsURL = frame.OrNull(provider), frame.OrNull(docs)
	for i, l := range row.Locations {
		v.Locations[i] = wire.FindingLocation{Location: a.hidePayload(l.Location), Lines: l.Lines, Count: l.Count,
			LastSeen: web.Time(l.LastSeen)}
	}
	return v
}

// describeRule returns the name of a finding's rule, and its provider and page if they are known. A rule of the account
// may be deleted, or another version's: then the finding knows its name.
func (a *findings) describeRule(f *leak.Finding) (name, provider, docs string) {
	if rule := a.rules[f.Rule]; rule != nil {
		return rule.Name, rule.Provider, rule.Docs
	}
	if strings.HasPrefix(f.Rule, finding.CustomPrefix) {
		if rule := a.own.Settings().Detection.Rule(f.Rule); rule != nil {
			return rule.Name, "", rule.Docs
		}
	}
	return cmp.Or(ruleNames[f.Rule], f.RuleName, strings.TrimPrefix(f.Rule, finding.CustomPrefix)), "", ""
}

// firstHitOf is what the configuration knows of the hits of a finding.
func firstHitOf(f *leak.Finding) finding.Row {
	return finding.Row{Sources: []finding.Source{f.First.Source}, FirstSeen: f.First.At, LastSeen: f.First.At,
		Occurrences: 1}
}

// payloadEnded reports whether the location is in an event whose payload was erased or whose retention has ended.
// Records of erasures are removed a day after that.
func (a *findings) payloadEnded(l finding.Location) bool {
	d, err := id.Parse(id.Event, l.EventID)
	return err == nil && (!a.erasures.ErasedAt(d).IsZero() || !a.Now().Before(a.Expiry(d)))
}

// hidePayload removes the pointer of a location in an event whose payload has ended: it consists of names of members
// and headers.
func (a *findings) hidePayload(l finding.Location) finding.Location {
	if a.payloadEnded(l) {
		l.Pointer = ""
	}
	return l
}

func (a *findings) occurrence(o *finding.Occurrence) wire.Occurrence {
	v := wire.Occurrence{
		Object: "occurrence", At: web.Time(o.At), ObservedAt: web.Time(o.ObservedAt), Count: o.N, Source: o.Source,
		Channel: frame.OrNull(o.Channel), Severity: o.Severity.String(), Unverified: o.Unverified, Test: o.Test,
		Location: a.hidePayload(o.Location), Environment: frame.OrNull(o.Environment), Release: frame.OrNull(o.Release),
		Method: frame.OrNull(o.Method), UserAgent: frame.OrNull(o.Agent),
	}
	if a.payloadEnded(o.Location) {
		v.UserAgent = nil // a header of the event
	}
	if o.RemoteIP.IsValid() {
		v.RemoteIP = frame.OrNull(o.RemoteIP.String())
	}
	if o.RemoteNet.IsValid() {
		v.RemoteNet = frame.OrNull(o.RemoteNet.String())
	}
	return v
}
