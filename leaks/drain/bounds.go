package drain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of findings. What is beyond them is counted in one finding of the drain, whose rule is flood.
const (
	maxOutstanding = 20_000 // of the account: neither resolved nor ignored
	maxNewFindings = 1_000  // of a drain and UTC day
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
	for _, x := range records {
		x.ID = finding.HitID(h.to.ID, hash, x.offset)
	}
	if err := d.produce(ctx, records); err != nil {
		return err
	}
	d.metrics.records.Add(float64(len(records)))
	d.deps.Records.AddMany(ctx, h.to.ID, len(records))
	return nil
}

// bound returns the records to produce: those of findings that are known or may be added, and one for all others.
func (d *Drain) bound(ctx context.Context, h *hits) []*hit {
	room := max(0, maxOutstanding-d.deps.Config.OutstandingFindings())
	var added []string // new findings, each once
	admitted := make(map[string]bool, len(h.list))
	for _, x := range h.list {
		if _, seen := admitted[x.Finding]; seen {
			continue
		}
		known := d.deps.Config.HasFinding(x.Finding)
		if admitted[x.Finding] = known; !known && len(added) < room {
			added = append(added, x.Finding)
		}
	}
	if len(added) > 0 {
		key := h.to.ID + " " + h.at.Format(time.DateOnly)
		for i, ok := range d.deps.Findings.Admit(ctx, key, added, maxNewFindings) {
			admitted[added[i]] = ok
		}
	}
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
	location.Label = h.clean(h.to.Name)
	return &hit{offset: offsetOfFlood, Hit: finding.Hit{
		Account: h.to.Account, Finding: h.keys.ID(finding.RuleFlood, "", hash), At: h.at,
		N: uint32(min(n, math.MaxUint32)), Kind: finding.Secret, Rule: finding.RuleFlood, Source: finding.Drain,
		Channel: config.PlatformGeneric, Sender: h.to.ID, Billed: true,
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
