package intake

import (
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Channels of hits of tripwires.
const (
	TripwireUsed = "used" // somebody has sent the secret to the relay
	TripwireSeen = "seen" // the secret stood where it should not be
)

// SetTripwire makes a hit one of a tripwire: kind, rule, severity and finding. The hit's source, test and location are
// set before.
func SetTripwire(h *finding.Hit, t *leak.Tripwire, keys *finding.Keys) {
	h.Kind, h.Rule, h.RuleName = finding.Tripwire, finding.RuleTripwire, ""
	h.Unverified, h.Billed, h.KeyID = false, false, ""
	h.Location.TripwireID = t.ID
	h.Finding = keys.TripwireID(t.ID, h.Test)
	h.Severity = finding.SeverityOf(finding.Context{Rule: h.Rule, Kind: h.Kind, Source: h.Source, Test: h.Test})
}

// Tripwires finds tripwires by the fingerprints of their secrets; see config.Control.
type Tripwires interface {
	TripwireByFingerprint(fingerprint string) *leak.Tripwire
}

// NewScanner returns a scanner of the rules for leaks, which also finds the ingest URLs of tripwires.
func NewScanner(c interface {
	TripwireByToken(token string) *leak.Tripwire
}) (*secrets.Scanner, error) {
	rules, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	return rules.WithIngestURLs(func(token string) bool { return c.TripwireByToken(token) != nil })
}

// SeenTripwire makes the hit of a secret one of the tripwire that has it, if there is one: the secret stands where it
// should not be. Whoever has sent it knows the secret, so it cannot be made up.
func SeenTripwire(c Tripwires, h *finding.Hit, keys *finding.Keys) {
	if h.Fingerprint == "" || h.Test {
		return
	}
	if t := c.TripwireByFingerprint(h.Fingerprint); t != nil {
		h.Channel = TripwireSeen
		SetTripwire(h, t, keys)
	}
}
