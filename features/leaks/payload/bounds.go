package payload

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Bounds of the new findings of an endpoint and UTC day, those of our own API keys apart. Secrets beyond them are
// counted in one finding of the endpoint, whose rule is flood. Configuration.RemainingFindings has the bounds of the
// account.
const (
	maxNewVerified   = 200
	maxNewUnverified = 20 // whoever knows the ingest URL can make up keys
)

const (
	retryAfter = time.Second
	// keysPatience is how long the keys of findings are asked for. Without them no event can be scanned, and the writer
	// must go on.
	keysPatience = time.Minute
)

// findingKeys returns the keys of findings, or none if they are not there for a minute. The error is that of ctx.
func (s *Scanner) findingKeys(ctx context.Context, secrets int) (finding.Keys, error) {
	for began := time.Now(); ; {
		keys, err := s.deps.Config.FindingKeys(ctx)
		switch {
		case err == nil:
			return keys, nil
		case time.Since(began) >= keysPatience:
			s.metrics.dropped.Add(float64(secrets))
			s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot read the keys of findings, secrets in stored events were dropped",
				slog.Int("secrets", secrets), slog.Any("error", err))
			return finding.Keys{}, nil
		}
		if err := wait.For(ctx, retryAfter); err != nil {
			return finding.Keys{}, err
		}
	}
}

// store bounds hits and produces them. It returns an error only if ctx ended.
func (s *Scanner) store(ctx context.Context, gathered []*hit) error {
	if len(gathered) == 0 {
		return nil
	}
	records := s.bound(ctx, gathered)
	for {
		failed := s.produce(ctx, records)
		if len(failed) == 0 {
			s.metrics.records.Add(float64(len(records)))
			return nil
		}
		if err := wait.For(ctx, retryAfter); err != nil {
			return err
		}
		records = failed
	}
}

// set is a set of new findings with a bound.
type set struct {
	endpoint, day string
	unverified    bool
	severity      finding.Severity
}

// bound returns the hits to produce: those of known findings, of our own API keys and of admitted new ones, and one for
// all others of an endpoint and minute.
func (s *Scanner) bound(ctx context.Context, gathered []*hit) []*hit {
	admitted := map[string]bool{}
	added := map[set][]string{}
	for _, h := range gathered {
		if _, seen := admitted[h.Finding]; seen || h.beyond {
			continue
		}
		known := h.KeyID != "" || h.Kind == finding.Tripwire || s.deps.Config.HasFinding(h.Finding)
		if admitted[h.Finding] = known; !known {
			of := set{h.Sender, h.At.Format(time.DateOnly), h.Unverified, h.Severity}
			added[of] = append(added[of], h.Finding)
		}
	}
	for of, names := range added {
		name, most := of.endpoint+" "+of.day, maxNewVerified
		if of.unverified {
			name, most = name+" unverified", maxNewUnverified
		}
		names = names[:min(len(names), s.deps.Config.RemainingFindings(of.endpoint, of.severity))]
		for i, ok := range s.deps.Findings.Admit(ctx, name, names, most) {
			admitted[names[i]] = ok
		}
	}
	var records []*hit
	floods := map[[16]byte]*hit{}
	for _, h := range gathered {
		if !h.beyond && admitted[h.Finding] {
			records = append(records, h)
			continue
		}
		n := h.N
		s.metrics.flooded.Add(float64(n))
		if h.flood != nil {
			h = h.flood
		}
		if first := floods[h.ID]; first != nil {
			first.N += n
			continue
		}
		h.N = n
		floods[h.ID] = h
		records = append(records, h)
	}
	return records
}

// produce appends hits to the log and waits until it has answered for each. It returns those that it did not
// acknowledge.
func (s *Scanner) produce(ctx context.Context, records []*hit) (failed []*hit) {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(records)) // buffered for all: a late answer must not block the producer
	for i, h := range records {
		r := &stream.Record{Key: []byte(h.Finding), Value: h.Encode()}
		partition := finding.PartitionOf(h.Finding, s.deps.Partitions)
		s.deps.Producer.ProduceUnordered(stream.Findings, partition, r,
			func(_ *stream.Record, err error) { answers <- answer{i, err} })
	}
	for range records {
		select {
		case a := <-answers:
			if a.err != nil {
				failed = append(failed, records[a.i])
			}
		case <-ctx.Done():
			return records
		}
	}
	return failed
}
