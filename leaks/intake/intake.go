// Package intake has what the sources of hits share: what a hit says of untrusted text, our own API keys and the flood
// (hit.go), the bounds of new findings (bounds.go), and the wait for the log (produce.go). Those that take requests of
// senders are a Stage (stage.go), with bounds of what runs at the same time (slots.go), metrics by result (metrics.go),
// and counters of what a sender has sent (counters.go).
package intake

import (
	"context"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// Configuration is the part of the configuration that all sources of hits need.
type Configuration interface {
	// FindingKeys returns the keys of the account's findings.
	FindingKeys(ctx context.Context) (finding.Keys, error)
	// HasFinding reports whether the configuration has a finding with that id.
	HasFinding(id string) bool
	// RemainingFindings returns how many new findings of a severity a sender may open; see config.Control.
	RemainingFindings(sender string, severity finding.Severity) int
	LeakedKeys
	Tripwires
}

// Producer appends a record and calls done once, when the record is durable or was given up.
type Producer interface {
	ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// Distinct bounds how many different members a set gets; see limit.Distinct.
type Distinct interface {
	Admit(ctx context.Context, key string, members []string, most int) []bool
}
