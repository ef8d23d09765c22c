package drain

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxRecords bounds the hit records of one request; what is beyond it is counted in the finding flood.
	maxRecords = 1_000
	// maxMatches bounds the secrets of one request that are hashed; those after them are counted in the finding flood too.
	maxMatches = 10_000
	// maxLines bounds the lines of one request that are read for the application and the time of a secret that has a
	// record already. After them, a secret is counted in its first record, or its rule's.
	maxLines = 2_000
	// matchCost is what a secret costs of the drain's rate, in bytes: about what it takes the CPU to scan so many.
	matchCost = 2 << 10
	// maxByLocation is the number of hit records of one request from which a secret gets no further record for another
	// application: it is counted in the first one. This depends on the body alone, not on what arrived before: lines that
	// are sent again make the same records, which count once.
	maxByLocation = 100
	// maxRecordsPerMinute is how many hit records a drain makes in a minute before it answers 429.
	maxRecordsPerMinute = 60_000
)

// hits collects the secrets of one request. Equal ones at the same location become one hit with a count.
type hits struct {
	drain    *Drain
	ctx      context.Context //nolint:containedctx // of the request that it belongs to
	to       *config.Drain
	at       time.Time // the arrival
	remoteIP netip.Addr
	method   string
	agent    string
	keys     *finding.Keys // nil until the first secret
	matches  uint64
	beyond   uint64 // of matches: without a record of their own
	list     []*hit // in order of their first secret
	index    map[hitKey]*hit
	first    map[secretKey]*hit
	lines    int    // read for a secret's application
	paid     uint64 // matches whose tokens are taken
	err      error  // why scanning was stopped
}

// hit is a record that is not complete yet: its identity needs the hash of the body.
type hit struct {
	finding.Hit
	offset int64 // of its first secret in the body
}

type hitKey struct {
	finding  string
	location [16]byte
}

// secretKey is a secret, as far as it is known without its location: of a rule without fingerprints, any.
type secretKey struct{ rule, fingerprint string }

func (d *Drain) newHits(r *http.Request, to *config.Drain) *hits {
	return &hits{
		drain: d, ctx: r.Context(), to: to, at: d.deps.Now().UTC(), remoteIP: web.InfoOf(r).Client, method: r.Method,
		agent: r.UserAgent(), index: map[hitKey]*hit{}, first: map[secretKey]*hit{},
	}
}

// add counts one secret. It is called while the body arrives. It returns false when scanning is no use any more.
func (h *hits) add(f secrets.Found) bool {
	if h.keys == nil {
		keys, err := h.drain.deps.Config.FindingKeys(h.ctx)
		if h.err = err; err != nil {
			return false
		}
		h.keys = &keys
		if h.drain.deps.Records.AddMany(h.ctx, h.to.ID, 0) > maxRecordsPerMinute {
			h.err = rateLimited(time.Minute, fmt.Sprintf(
				"takes secrets from at most %d locations a minute; send the lines again after a minute", maxRecordsPerMinute))
			return false
		}
	}
	if h.matches++; h.matches > maxMatches {
		h.beyond++
		return true
	}
	fingerprint := ""
	if f.Rule.Fingerprint {
		fingerprint = h.keys.Fingerprint(h.keys.SaltedHash(f.Rule.Canonical(f.Secret)))
	}
	first := h.first[secretKey{f.Rule.ID, fingerprint}]
	switch {
	case first == nil && len(h.list) == maxRecords:
		h.beyond++
		return true
	case first != nil && h.lines >= maxLines:
		first.N++
		return true
	}
	h.lines++
	source := readLine(f.Before, f.After, h.at)
	location := h.location(source.app)
	key := hitKey{location: location.Hash()}
	key.finding = h.keys.ID(f.Rule.ID, fingerprint, key.location)
	known := h.index[key]
	if known == nil && fingerprint != "" && len(h.list) >= maxByLocation {
		known = first
	}
	switch {
	case known != nil:
		known.N++
		if source.at.After(known.ObservedAt) {
			known.ObservedAt = source.at
		}
		return true
	case len(h.list) == maxRecords:
		h.beyond++
		return true
	}
	x := h.newHit(f, fingerprint, source)
	x.Finding, x.LocationHash, x.Location = key.finding, key.location, location
	if x.Location.Label == "" {
		x.Location.Label = h.clean(h.to.Name) // it is no part of the location: the drain may get another name
	}
	h.index[key] = x
	if first == nil {
		h.first[secretKey{f.Rule.ID, fingerprint}] = x
	}
	h.list = append(h.list, x)
	return true
}

// takeUnpaid returns how many secrets were found since the last call.
func (h *hits) takeUnpaid() int {
	n := h.matches - h.paid
	h.paid = h.matches
	return int(n)
}

// location returns the location of a secret in a line of an application; empty if the line does not name it.
func (h *hits) location(app string) finding.Location {
	return finding.Location{Source: finding.Drain, Label: h.clean(app), DrainID: h.to.ID}
}

// newHit returns the hit of a secret, without what depends on its finding.
func (h *hits) newHit(f secrets.Found, fingerprint string, source line) *hit {
	keyID, accepted := "", false
	if fingerprint != "" {
		var key *config.Key
		if key, accepted = h.drain.deps.Config.LeakedKey(fingerprint); key != nil {
			keyID = key.ID
		}
	}
	severity, err := finding.ParseSeverity(string(f.Rule.Severity))
	if err != nil {
		panic("BUG: rule " + f.Rule.ID + ": " + err.Error()) // package secrets checks its rules
	}
	return &hit{offset: f.Offset, Hit: finding.Hit{
		Account: h.to.Account, At: h.at, ObservedAt: source.at, N: 1, Kind: finding.Secret, Rule: f.Rule.ID,
		Source: finding.Drain, Channel: config.PlatformGeneric, Sender: h.to.ID,
		Severity: finding.SeverityOf(finding.Context{
			Rule: f.Rule.ID, Severity: severity, Kind: finding.Secret, Source: finding.Drain,
			Server: f.Rule.Exposure == secrets.Server, Test: f.Rule.Test, KeyWorks: accepted,
		}),
		Test: f.Rule.Test, Billed: !f.Rule.Test, Masked: f.Rule.Mask(f.Secret), Fingerprint: fingerprint, KeyID: keyID,
		Environment: h.clean(source.environment), Release: h.clean(source.release),
		Method: h.method, Agent: h.clean(h.agent), RemoteIP: h.remoteIP,
	}}
}

// maxText is the length of untrusted text in bytes; what a hit keeps of it is shorter.
const maxText = 1 << 10

// clean returns untrusted text as it may be stored: without what is invisible, and without secrets.
func (h *hits) clean(text string) string {
	if text == "" {
		return ""
	}
	masked, _ := h.drain.deps.Scanner.MaskAll(nil, []byte(finding.CleanLine(text, maxText)))
	return string(masked)
}
