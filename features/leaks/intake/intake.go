// Package intake has what the sources of hits share: what a hit says of untrusted text, our own API keys and the flood,
// the wait for the log, the bounds of new findings and of what runs at the same time (bounds.go). Those that take
// requests of senders are a Stage, with metrics by result and counters of what a sender has sent (counters.go).
package intake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
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

// ProduceTimeout limits the wait for the log. The producer continues to retry after it.
const ProduceTimeout = 10 * time.Second

// errUnconfirmed means that some hits may not be in the log.
var errUnconfirmed = errors.New("the log did not confirm the hits")

// Produce appends hits to the topic findings and waits until the log has acknowledged all of them, for 10 s at most.
func Produce(ctx context.Context, to Producer, partitions int32, hits []*finding.Hit) error {
	answers := make(chan error, len(hits)) // buffered for all: a late acknowledgement must not block the producer
	for _, h := range hits {
		record := &stream.Record{Key: []byte(h.Finding), Value: h.Encode()}
		to.ProduceUnordered(stream.Findings, finding.PartitionOf(h.Finding, partitions), record,
			func(_ *stream.Record, err error) { answers <- err })
	}
	ctx, cancel := context.WithTimeout(ctx, ProduceTimeout)
	defer cancel()
	for range hits {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%w within %v", errUnconfirmed, ProduceTimeout)
		}
	}
	return nil
}

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

// Deps are what a Stage needs. All are required.
type Deps struct {
	Node       string // name of this node
	Partitions int32  // of the topic findings
	Metrics    prometheus.Registerer
	Producer   Producer
	Findings   Distinct // new findings of each sender and day
	Now        func() time.Time
	Front      *web.Front
}

// Stage is what the stages share that take requests of senders: log drains and reports of the SDK.
type Stage struct {
	Deps
	Bounds
	*Counters
	Forbidden string                 // the result of a request that was answered with 403
	Requests  *prometheus.CounterVec // by result
	Records   prometheus.Counter     // hits that the log has acknowledged
	Flooded   prometheus.Counter     // secrets in the finding of the flood
}

// Count counts a request of a sender, for the sender's page and in the metrics.
func (s *Stage) Count(account, sender string, x Counted, err error) {
	result := s.resultOf(err)
	s.Requests.WithLabelValues(result).Inc()
	x.Requests = 1
	if err != nil {
		x.Rejected, x.LastError = 1, result
	}
	s.Add(account, sender, s.Now(), x)
}

// resultOf returns the word for the outcome of a request, in the metrics and as last_error of a sender.
func (s *Stage) resultOf(err error) string {
	e, ok := errors.AsType[*web.Error](err)
	switch {
	case err == nil:
		return "accepted"
	case !ok:
		return "failed"
	}
	switch e.Status {
	case http.StatusForbidden:
		return s.Forbidden
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusRequestTimeout:
		return "too_slow"
	case http.StatusUnsupportedMediaType:
		return "unsupported_encoding"
	case http.StatusServiceUnavailable:
		return "unavailable"
	default:
		return "unreadable"
	}
}

// Store produces hits, and returns when the log has acknowledged all of them, or with a 503 and a message. The error
// has no cause, which would log a line for each request while the log is unavailable.
func (s *Stage) Store(ctx context.Context, hits []*finding.Hit, message string) error {
	if Produce(ctx, s.Producer, s.Partitions, hits) != nil {
		return web.ServiceUnavailable(nil, message)
	}
	s.Records.Add(float64(len(hits)))
	return nil
}

// RateLimited returns the 429 of a sender that is to wait, for a second at least.
func RateLimited(wait time.Duration, format string, args ...any) error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: fmt.Sprintf(format, args...)}
}

// TooLarge returns the 413 of a body.
func TooLarge(format string, args ...any) error {
	return &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge,
		Message: fmt.Sprintf(format, args...)}
}
