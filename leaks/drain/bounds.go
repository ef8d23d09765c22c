package drain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"

	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// newFindings bounds the new findings of a drain and UTC day. What is beyond a bound is counted in one finding of the
// drain, whose rule is flood.
var newFindings = intake.Limits{Severe: 750, Minor: 250, OfRule: 10}

// offsetOfFlood takes the place of the offset in the identity of a hit of the finding flood.
const offsetOfFlood = -1

// store produces the hits of a complete body, and returns when the log has acknowledged all of them.
func (d *Drain) store(ctx context.Context, h *hits, body [sha256.Size]byte) error {
	if h.matches == 0 {
		return nil
	}
	bounded := d.bound(ctx, h)
	hash := hex.EncodeToString(body[:])
	if h.of.delivery != "" { // the platform sends it again under this id
		hash = h.of.platform + " " + h.of.delivery
	}
	records := make([]*finding.Hit, len(bounded))
	for i, x := range bounded {
		x.ID = finding.HitID(h.of.to.ID, hash, x.offset)
		records[i] = &x.Hit
	}
	if intake.Produce(ctx, d.deps.Producer, d.cfg.Partitions, records) != nil {
		// Without a cause, which would log a line for each request while the log is unavailable.
		return web.ServiceUnavailable(nil, "the log did not confirm the hits of these lines; send the lines again")
	}
	d.metrics.records.Add(float64(len(records)))
	d.deps.Records.AddMany(ctx, h.of.to.ID, len(records))
	return nil
}

// bound returns the records to produce: those of admitted findings, and one for all others.
func (d *Drain) bound(ctx context.Context, h *hits) []*hit {
	all := make([]*finding.Hit, len(h.list))
	for i, x := range h.list {
		all[i] = &x.Hit
	}
	admitted := d.bounds.Admit(ctx, newFindings, all)
	var records []*hit
	beyond := h.beyond
	for _, x := range h.list {
		if admitted[x.Finding] {
			records = append(records, x)
		} else {
			beyond += uint64(x.N)
		}
	}
	if beyond > 0 {
		d.metrics.flooded.Add(float64(beyond))
		records = append(records, h.flood(beyond))
	}
	return records
}

// flood returns the record of secrets that are beyond the bounds.
func (h *hits) flood(n uint64) *hit {
	location := h.location("")
	hash := location.Hash()
	location.Label = h.clean(h.of.to.Name)
	return &hit{offset: offsetOfFlood, Hit: finding.Hit{
		Account: h.of.to.Account, Finding: h.keys.ID(finding.RuleFlood, "", hash), At: h.at,
		N: uint32(min(n, math.MaxUint32)), Kind: finding.Secret, Rule: finding.RuleFlood, Source: finding.Drain,
		Channel: h.of.detected, Sender: h.of.to.ID, Billed: true,
		Severity: finding.SeverityOf(finding.Context{Rule: finding.RuleFlood, Kind: finding.Secret, Source: finding.Drain}),
		Location: location, LocationHash: hash, Method: h.method, Agent: h.clean(h.agent), RemoteIP: h.remoteIP,
	}}
}
