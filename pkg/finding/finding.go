// Package finding describes findings: leaked secrets, exposed files and tripwires that were touched. A sender (a log
// drain, a DSN, a scan, a tripwire or an endpoint) sees a hit; all hits of one secret are one finding.
//
// A Hit is a record of the topic findings. Its finding's id derives from the secret and from a key that all nodes share
// (Keys), so hits of one secret meet in one partition, and nothing has to look up whether the finding exists. The text
// of a secret is never part of a Hit: only its mask and its fingerprint.
//
// Start reading at Hit, Keys and Status.
package finding

import (
	"hash/fnv"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Prefixes of ids and fingerprints.
const (
	Prefix            = "fnd_"
	FingerprintPrefix = "fpr_"
)

// Kind says what was found.
type Kind string

// Kinds of findings.
const (
	Secret      Kind = "secret"
	ExposedFile Kind = "exposed_file"
	Tripwire    Kind = "tripwire"
)

// Source is the way by which a hit came.
type Source string

// Sources of hits.
const (
	SDK          Source = "sdk"
	Drain        Source = "drain"
	Scan         Source = "scan"
	FromTripwire Source = "tripwire"
	Event        Source = "event"
)

// Sources are all sources, in the order in which a finding lists them.
var Sources = []Source{SDK, Drain, Scan, FromTripwire, Event}

// Rules with a meaning of their own.
const (
	// RuleFlood is the rule of the one finding that gets the hits of a sender beyond its bound of new findings.
	RuleFlood = "flood"
	// RuleTripwire is the rule of all findings about tripwires.
	RuleTripwire = "tripwire"
	// RuleGeneric finds values by the name beside them. Its severity does not depend on the context.
	RuleGeneric = "generic-secret"
	// CustomPrefix begins the ids of rules that a customer defines.
	CustomPrefix = secrets.CustomPrefix
)

// Valid reports whether s is the id of a finding.
func Valid(s string) bool {
	_, err := id.Parse(Prefix, s)
	return err == nil
}

// PartitionOf returns the partition of the topic findings for the records of a finding. Nothing stores it, so the
// number of partitions may grow.
func PartitionOf(finding string, partitions int32) int32 {
	h := fnv.New32a()
	h.Write([]byte(finding))
	return int32(h.Sum32() % uint32(partitions))
}
