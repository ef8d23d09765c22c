package drain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/pkg/finding"
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
	hash := hex.EncodeToString(body[:])
	if h.of.delivery != "" { // the platform sends it again under this id
		hash = h.of.platform + " " + h.of.delivery
	}
	all := make([]*finding.Hit, len(h.list))
	for i, x := range h.list {
		x.ID = finding.HitID(h.of.to.ID, hash, x.offset)
		all[i] = &x.Hit
	}
	records, beyond := d.stage.Admit(ctx, newFindings, all)
	if beyond += h.beyond; beyond > 0 {
		d.stage.Flooded.Add(float64(beyond))
		flood := h.flood(beyond)
		flood.ID = finding.HitID(h.of.to.ID, hash, offsetOfFlood)
		records = append(records, flood)
	}
	if err := d.stage.Store(ctx, records,
		"the log did not confirm the hits of these lines; send the lines again"); err != nil {
		return err
	}
	d.deps.Records.AddMany(ctx, h.of.to.ID, len(records))
	return nil
}

// flood returns the hit of secrets that are beyond the bounds.
func (h *hits) flood(n uint64) *finding.Hit {
	x := h.base()
	x.Location = h.location("")
	x.LocationHash = x.Location.Hash()
	x.Location.Label = h.clean(h.of.to.Name) // as in add
	intake.SetFlood(&x, n, h.keys)
	return &x
}
