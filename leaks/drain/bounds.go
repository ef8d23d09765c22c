package drain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of the new findings of a drain and UTC day, those of our own API keys apart: somebody who can make up keys
// must not hide them, nor severe findings behind others, nor those of one rule behind another's. What is beyond a bound
// is counted in one finding of the drain, whose rule is flood. Configuration.FindingRoom has the bounds of the account.
const (
	maxNewSevere = 750 // severity high or critical
	maxNewMinor  = 250 // the others
	maxNewOfRule = 10  // of each rule in any case, beyond these two
)

// NewFindingsSpan is how long the sets of Deps.Findings last: longer than the day that is part of their keys.
const NewFindingsSpan = 25 * time.Hour

const (
	// produceTimeout limits the wait for the log. The producer continues to retry after it.
	produceTimeout = 10 * time.Second
	// offsetOfFlood takes the place of the offset in the identity of a hit of the finding flood.
	offsetOfFlood = -1
)

// store produces the hits of a complete body, and returns when the log has acknowledged all of them.
func (d *Drain) store(ctx context.Context, h *hits, body [sha256.Size]byte) error {
	if h.matches == 0 {
		return nil
	}
	records := d.bound(ctx, h)
	hash := hex.EncodeToString(body[:])
	if h.of.delivery != "" { // the platform sends it again under this id
		hash = h.of.platform + " " + h.of.delivery
	}
	for _, x := range records {
		x.ID = finding.HitID(h.of.to.ID, hash, x.offset)
	}
	if err := d.produce(ctx, records); err != nil {
		return err
	}
	d.metrics.records.Add(float64(len(records)))
	d.deps.Records.AddMany(ctx, h.of.to.ID, len(records))
	return nil
}

// bound returns the records to produce: those of admitted findings, and one for all others.
func (d *Drain) bound(ctx context.Context, h *hits) []*hit {
	admitted := d.admitFindings(ctx, h)
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

// admitFindings returns the findings whose hits are produced: those that are known, those of our own API keys, and new
// ones within the bounds. Severe ones come first, then those of rules with few of them.
func (d *Drain) admitFindings(ctx context.Context, h *hits) (admitted map[string]bool) {
	admitted = make(map[string]bool, len(h.list))
	type newFinding struct {
		*hit
		nth int // of its rule
	}
	var added []newFinding
	ofRule := map[string]int{}
	for _, x := range h.list {
		if _, seen := admitted[x.Finding]; seen {
			continue
		}
		admitted[x.Finding] = x.KeyID != "" || d.deps.Config.HasFinding(x.Finding)
		if !admitted[x.Finding] {
			added = append(added, newFinding{x, ofRule[x.Rule]})
			ofRule[x.Rule]++
		}
	}
	slices.SortStableFunc(added, func(a, b newFinding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.nth, b.nth))
	})
	var severe, minor []*hit
	for _, x := range added {
		if x.Severity >= finding.High {
			severe = append(severe, x.hit)
		} else {
			minor = append(minor, x.hit)
		}
	}
	d.admitNew(ctx, h, "severe", severe, maxNewSevere, admitted)
	d.admitNew(ctx, h, "minor", minor, maxNewMinor, admitted)
	return admitted
}

// admitNew marks those of some new findings as admitted that are within the bounds. Each hit is of another finding.
func (d *Drain) admitNew(ctx context.Context, h *hits, class string, added []*hit, most int, admitted map[string]bool) {
	if len(added) == 0 {
		return
	}
	added = added[:min(len(added), d.deps.Config.FindingRoom(h.of.to.ID, added[0].Severity))]
	day := h.of.to.ID + " " + h.at.Format(time.DateOnly)
	admit := func(set string, list []*hit, most int) {
		ids := make([]string, len(list))
		for i, x := range list {
			ids[i] = x.Finding
		}
		for i, ok := range d.deps.Findings.Admit(ctx, day+" "+set, ids, most) {
			admitted[ids[i]] = ok
		}
	}
	admit(class, added, most)
	byRule := map[string][]*hit{}
	for _, x := range added {
		if !admitted[x.Finding] {
			byRule[x.Rule] = append(byRule[x.Rule], x)
		}
	}
	for rule, list := range byRule {
		admit("rule "+rule, list, maxNewOfRule)
	}
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

// errUnconfirmed means that some hits may not be in the log.
var errUnconfirmed = errors.New("the log did not confirm the hits")

// produce appends the records to the log and waits until it has acknowledged all of them.
func (d *Drain) produce(ctx context.Context, records []*hit) error {
	answers := make(chan error, len(records)) // buffered for all: a late acknowledgement must not block the producer
	for _, x := range records {
		record := &stream.Record{Key: []byte(x.Finding), Value: x.Encode()}
		partition := finding.PartitionOf(x.Finding, d.cfg.Partitions)
		d.deps.Producer.ProduceUnordered(stream.Findings, partition, record,
			func(_ *stream.Record, err error) { answers <- err })
	}
	ctx, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	var failed error
	for range records {
		select {
		case err := <-answers:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			failed = errors.Join(failed, fmt.Errorf("%w within %v", errUnconfirmed, produceTimeout))
		}
		if failed != nil {
			// Without a cause, which would log a line for each request while the log is unavailable.
			return web.ServiceUnavailable(nil, "the log did not confirm the hits of these lines; send the lines again")
		}
	}
	return nil
}
