package intake

import (
	"math"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
)

// LeakedKeys finds our own API keys by the fingerprints of their text; see config.Control.
type LeakedKeys interface {
	// LeakedKey returns the API key whose text has that fingerprint and whether it is accepted now; nil if there is none.
	LeakedKey(fingerprint string) (key *config.Key, accepted bool)
}

// OwnKey returns the id of our own API key that has a fingerprint, and whether it is accepted now. The id is empty if
// there is none, as for an empty fingerprint.
func OwnKey(c LeakedKeys, fingerprint string) (id string, accepted bool) {
	if fingerprint == "" {
		return "", false
	}
	key, accepted := c.LeakedKey(fingerprint)
	if key == nil {
		return "", accepted
	}
	return key.ID, accepted
}

// SetSeverity sets the severity of a hit, and the id of our own API key that it shows. about is what its rule says; the
// hit's source and fingerprint are set before.
func SetSeverity(c LeakedKeys, h *finding.Hit, about finding.Context) {
	about.Source = h.Source
	h.KeyID, about.KeyWorks = OwnKey(c, h.Fingerprint)
	h.Severity = finding.SeverityOf(about)
}

// SetFlood makes a hit the one of n secrets that are beyond the bounds. The hit's source, sender and location are set
// before.
func SetFlood(h *finding.Hit, n uint64, keys *finding.Keys) {
	h.Kind, h.Rule, h.N = finding.Secret, finding.RuleFlood, uint32(min(n, math.MaxUint32))
	h.Finding = keys.ID(h.Rule, "", h.LocationHash)
	h.Severity = finding.SeverityOf(finding.Context{Rule: h.Rule, Kind: h.Kind, Source: h.Source})
}

// maxText is the length of untrusted text in bytes; what a hit keeps of it is shorter.
const maxText = 1 << 10

// CleanText returns untrusted text as a hit may have it: without what is invisible, and without what masks finds.
func CleanText(masks *secrets.Scanner, text string) string {
	if text == "" {
		return ""
	}
	masked, _ := masks.MaskAll(nil, []byte(finding.CleanLine(text, maxText)))
	return string(masked)
}
