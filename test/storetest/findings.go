package storetest

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// FindingID returns the id of a finding of a bench.
func FindingID(n int) string {
	sum := sha256.Sum256(fmt.Append(nil, "finding ", n))
	return id.ID(sum[:16]).Text(finding.Prefix)
}

// Hit returns a new billed hit of a finding, seen now by a drain; each change adjusts it.
func (b *Bench) Hit(n int, change ...func(*finding.Hit)) *finding.Hit {
	b.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	h := &finding.Hit{
		Account: Account, Finding: FindingID(n), ID: finding.HitID("drn_1", id.Random(""), 0), At: now,
		ObservedAt: now.Add(-time.Minute), N: 1, Kind: finding.Secret, Rule: "stripe-secret-live", Source: finding.Drain,
		Channel: "log", Sender: "drn_1", Severity: finding.High, Billed: true, Masked: "sk_live_***4242",
		Fingerprint: fmt.Sprintf("fpr_%d", n),
		Location:    finding.Location{Source: finding.Drain, Label: "shop", DrainID: "drn_1"},
		Environment: "production", Release: "1.0", Method: "POST", Agent: "agent/1",
		RemoteIP: netip.MustParseAddr("192.0.2.77"),
	}
	for _, f := range change {
		f(h)
	}
	h.Day = h.At.UTC().Format(time.DateOnly)
	h.LocationHash = h.Location.Hash()
	return h
}

// ProduceHits produces the records of hits, those of a finding in their order.
func (b *Bench) ProduceHits(hits ...*finding.Hit) {
	b.Helper()
	for _, h := range hits {
		b.produceFindings(h.Finding, h.Encode())
	}
	b.flushProducer()
}

// ProduceCounts produces the records of reports, those of a sender in their order.
func (b *Bench) ProduceCounts(reports ...*finding.Counts) {
	b.Helper()
	for _, c := range reports {
		b.produceFindings(c.Sender, c.Encode())
	}
	b.flushProducer()
}

func (b *Bench) produceFindings(key string, value []byte) {
	b.Producer.Produce(stream.Findings, finding.PartitionOf(key, Partitions),
		&stream.Record{Key: []byte(key), Value: value}, func(_ *stream.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
}

func (b *Bench) flushProducer() {
	b.Helper()
	if err := b.Producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// Counts returns the report of what sender drn_1 sent in the nth minute before now; each change adjusts it.
func (b *Bench) Counts(n int, change ...func(*finding.Counts)) *finding.Counts {
	now := time.Now().UTC().Truncate(time.Millisecond)
	c := &finding.Counts{Account: Account, Sender: "drn_1",
		Minute: now.Truncate(time.Minute).Add(-time.Duration(n) * time.Minute),
		Node:   "node-1", Boot: [16]byte{1}, Version: 1, Requests: 1, Lines: 10, Bytes: 1000, LastAt: now,
		Platform: "vercel"}
	for _, f := range change {
		f(c)
	}
	return c
}
