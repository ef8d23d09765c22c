package drain

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxRecords bounds the hit records of one request, those of our own API keys and of tripwires apart. Severe hits, and
	// those of rules with few records, take the place of others. What is beyond it is counted in the finding flood.
	maxRecords = 1_000
	// maxMatches bounds the secrets of one request that are hashed, and each rule may go on up to maxMatchesOfRule; those
	// after them are counted in the finding flood too.
	maxMatches       = 10_000
	maxMatchesOfRule = 200
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
	ctx      context.Context // of the request that it belongs to
	of       *request
	scanner  *secrets.Scanner // with the account's own rules
	at       time.Time        // the arrival
	remoteIP netip.Addr
	method   string
	agent    string
	keys     *finding.Keys // nil until the first secret
	matches  uint64
	beyond   uint64         // of matches: without a record of their own
	hashed   uint64         // of matches
	extra    map[string]int // of hashed: those of a rule that are beyond maxMatches
	list     []*hit         // in order of their first secret
	index    map[hitKey]*hit
	first    map[secretKey]*hit
	groups   map[group][]*hit // of list, without our own keys and tripwires
	bounded  int              // number of hits in groups
	largest  *group           // the group that gives up a hit first; nil = not known
	lines    int              // read for a secret's application
	paid     uint64           // matches whose tokens are taken
	err      error            // why scanning was stopped
}

// group is a set of hits that share room.
type group struct {
	severity finding.Severity
	rule     string
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

func (d *Drain) newHits(r *http.Request, of *request) *hits {
	rules, revision := d.deps.Config.CustomRules()
	return &hits{
		drain: d, ctx: r.Context(), of: of, scanner: d.scanners.For(of.to.Account, revision, rules),
		at: d.deps.Now().UTC(), remoteIP: web.InfoOf(r).Client, method: r.Method,
		agent: r.UserAgent(), index: map[hitKey]*hit{}, first: map[secretKey]*hit{},
		extra: map[string]int{}, groups: map[group][]*hit{},
	}
}

// add counts one secret. It is called while the body arrives. It returns false when scanning is no use any more.
func (h *hits) add(f secrets.Found) bool {
	if h.keys == nil {
		if h.err = h.begin(); h.err != nil {
			return false
		}
	}
	if h.matches++; !h.mayHash(f.Rule.ID) {
		h.beyond++
		return true
	}
	secret := secretKey{rule: f.Rule.ID}
	if f.Rule.Fingerprint {
		secret.fingerprint = h.keys.Fingerprint(h.keys.SaltedHash(f.Rule.Canonical(f.Secret)))
	}
	first := h.first[secret]
	severity, keyID := h.severity(f.Rule, secret.fingerprint, first)
	of := group{severity, f.Rule.ID}
	hasRoom := func() bool { return keyID != "" || h.getsRecord(of) || h.isTripwire(secret, f.Rule.Test) }
	switch {
	case first == nil && !hasRoom():
		h.beyond++
		return true
	case first != nil && h.lines >= maxLines:
		first.N++
		return true
	}
	h.lines++
	source := readLine(h.of.platform, f.Before, f.After, h.at)
	source.app = cmp.Or(source.app, h.of.origins.at(f.Offset))
	location := h.location(source.app)
	key := hitKey{location: location.Hash()}
	key.finding = h.keys.ID(f.Rule.ID, secret.fingerprint, key.location)
	known := h.index[key]
	if known == nil && secret.fingerprint != "" && len(h.list) >= maxByLocation {
		known = first
	}
	switch {
	case known != nil:
		known.N++
		if source.at.After(known.ObservedAt) {
			known.ObservedAt = source.at
		}
		return true
	case !hasRoom():
		h.beyond++
		return true
	}
	x := h.newHit(f, source)
	x.Finding, x.LocationHash, x.Location = key.finding, key.location, location
	x.Fingerprint, x.Severity, x.KeyID = secret.fingerprint, severity, keyID
	if x.Location.Label == "" {
		x.Location.Label = h.clean(h.of.to.Name) // it is no part of the location: the drain may get another name
	}
	h.insert(x, of, keyID != "" || h.isTripwire(secret, f.Rule.Test))
	intake.SeenTripwire(h.drain.deps.Config, &x.Hit, h.keys)
	return true
}

// begin prepares for the first secret of a request.
func (h *hits) begin() error {
	keys, err := h.drain.deps.Config.FindingKeys(h.ctx)
	if err != nil {
		return err
	}
	h.keys = &keys
	if h.drain.deps.Records.AddMany(h.ctx, h.of.to.ID, 0) > maxRecordsPerMinute {
		return intake.RateLimited(time.Minute,
			"the drain takes secrets from at most %d locations a minute; send the lines again after a minute",
			maxRecordsPerMinute)
	}
	return nil
}

// mayHash reports whether one more secret of a rule is hashed, and counts it.
func (h *hits) mayHash(rule string) bool {
	if h.hashed >= maxMatches {
		if h.extra[rule] >= maxMatchesOfRule {
			return false
		}
		h.extra[rule]++
	}
	h.hashed++
	return true
}

// getsRecord reports whether a new hit of a group gets a record. When there are maxRecords it takes the place of a hit
// of a group that is less severe, or as severe and larger.
func (h *hits) getsRecord(of group) bool {
	if h.bounded < maxRecords {
		return true
	}
	if h.largest == nil {
		h.largest = h.findLargest()
	}
	from := *h.largest
	return from.severity < of.severity || from.severity == of.severity && len(h.groups[from]) > len(h.groups[of])+1
}

// insert adds a hit, for which there is room. One that is apart takes none, and is never removed.
func (h *hits) insert(x *hit, of group, apart bool) {
	if !apart {
		if h.bounded == maxRecords {
			h.removeOne()
		}
		h.groups[of] = append(h.groups[of], x)
		h.bounded++
		h.largest = nil
	}
	h.index[hitKey{x.Finding, x.LocationHash}] = x
	if secret := (secretKey{x.Rule, x.Fingerprint}); h.first[secret] == nil {
		h.first[secret] = x
	}
	h.list = append(h.list, x)
}

// removeOne removes the last hit of the largest group; what it counted is beyond the bound.
func (h *hits) removeOne() {
	from := *h.largest
	last := len(h.groups[from]) - 1
	x := h.groups[from][last]
	if h.groups[from] = h.groups[from][:last]; last == 0 {
		delete(h.groups, from)
	}
	h.bounded--
	h.beyond += uint64(x.N)
	h.list = slices.DeleteFunc(h.list, func(y *hit) bool { return y == x })
	delete(h.index, hitKey{x.Finding, x.LocationHash})
	if secret := (secretKey{x.Rule, x.Fingerprint}); h.first[secret] == x {
		delete(h.first, secret)
	}
}

// findLargest returns the largest of the groups with the lowest severity. Of equal ones it is the first by name, so
// that lines which are sent again make the same records.
func (h *hits) findLargest() *group {
	var found *group
	for g, list := range h.groups {
		if found == nil || cmp.Or(cmp.Compare(g.severity, found.severity), cmp.Compare(len(h.groups[*found]), len(list)),
			cmp.Compare(g.rule, found.rule)) < 0 {
			found = &g
		}
	}
	return found
}

// takeUnpaid returns how many secrets were found since the last call.
func (h *hits) takeUnpaid() int {
	n := h.matches - h.paid
	h.paid = h.matches
	return int(n)
}

// location returns the location of a secret in a line of an application; empty if the line does not name it.
func (h *hits) location(app string) finding.Location {
	return finding.Location{Source: finding.Drain, Label: h.clean(app), DrainID: h.of.to.ID}
}

// severity returns the severity of a secret, and the id of our own API key that it is; empty = it is none. known is a
// hit of the same secret; nil = none.
func (h *hits) severity(rule *secrets.Rule, fingerprint string, known *hit) (severity finding.Severity, keyID string) {
	if known != nil {
		return known.Severity, known.KeyID
	}
	c := finding.ContextOf(rule)
	c.Source = finding.Drain
	keyID, c.KeyWorks = intake.OwnKey(h.drain.deps.Config, fingerprint)
	return finding.SeverityOf(c), keyID
}

// isTripwire reports whether a secret is that of a tripwire. Nobody can make one up, and made-up keys must not hide it.
func (h *hits) isTripwire(x secretKey, isTest bool) bool {
	if first := h.first[x]; first != nil {
		return first.Kind == finding.Tripwire
	}
	return x.fingerprint != "" && !isTest && h.drain.deps.Config.TripwireByFingerprint(x.fingerprint) != nil
}

// newHit returns the hit of a secret, without what depends on its fingerprint.
func (h *hits) newHit(f secrets.Found, source line) *hit {
	x := &hit{h.base(), f.Offset}
	x.ObservedAt, x.N, x.Kind, x.Masked = source.at, 1, finding.Secret, f.Rule.Mask(f.Secret)
	x.Rule, x.RuleName, x.Test, x.Billed = f.Rule.ID, f.Rule.CustomName(), f.Rule.Test, !f.Rule.Test
	x.Environment, x.Release = h.clean(source.environment), h.clean(source.release)
	return x
}

// base returns what all hits of the request have.
func (h *hits) base() finding.Hit {
	return finding.Hit{
		Account: h.of.to.Account, At: h.at, Source: finding.Drain, Channel: h.of.detected, Sender: h.of.to.ID, Billed: true,
		Method: h.method, Agent: h.clean(h.agent), RemoteIP: h.remoteIP,
	}
}

func (h *hits) clean(text string) string { return intake.CleanText(h.scanner, text) }
