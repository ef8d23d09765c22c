package leak

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
)

// Domain is a host name that a customer claims. It is verified while its token stands in DNS or on the website.
type Domain struct {
	entity.Meta
	Hostname string `json:"hostname"` // ASCII, lower case; with a port inside RELAY_EGRESS_ALLOW only
	// Hash is the SHA-256 of the hostname, by which a second domain with the same one is refused. Create sets it.
	Hash []byte `json:"hash"`
	// Token proves the hostname: rvf_ and 32 letters and digits. It is public while it is a proof.
	Token string `json:"token"`
	// Method is the one of DomainMethods that has proven the hostname; empty: none has.
	Method     string    `json:"method,omitempty"`
	VerifiedAt time.Time `json:"verified_at,omitzero"` // since when the hostname is proven, or was until ExpiredAt
	// MissedAt is the first check without a proof since the last one with it; zero: there was none.
	MissedAt time.Time `json:"missed_at,omitzero"`
	// SilentAt is the first of the checks in a row that got no answer while no other domain got one; zero: there is none.
	SilentAt  time.Time `json:"silent_at,omitzero"`
	ExpiredAt time.Time `json:"expired_at,omitzero"` // when the proof was missed for long enough; zero: it was not
	// Checked is the newest check; its time is zero if there was none.
	Checked   DomainCheck `json:"checked"`
	CreatedBy string      `json:"created_by"` // key_… or usr_…
}

// DomainCheck is one search for the proof of a domain.
type DomainCheck struct {
	At     time.Time `json:"at,omitzero"`
	Method string    `json:"method,omitempty"` // one of DomainMethods
	// Error is the one of DomainErrors that says why there was no proof; empty: it was found.
	Error string `json:"error,omitempty"`
	// Seen is what stood in the place of the proof, cleaned for display; empty if nothing did.
	Seen string `json:"seen,omitempty"`
	// Silent means that no other domain got an answer in the last day either: the network of the relay may be down.
	Silent bool `json:"silent,omitempty"`
}

// Methods of proof.
const (
	DomainByDNS  = "dns"
	DomainByHTTP = "http"
)

// DomainMethods are the methods of proof.
var DomainMethods = []string{DomainByDNS, DomainByHTTP}

// Reasons why a check has found no proof. They name no address and no port, so a check tells nothing about the network
// of the relay.
const (
	DomainNotFound    = "not_found"   // there is no record or file
	DomainMismatch    = "mismatch"    // it has another content
	DomainRedirected  = "redirected"  // the website answers with a redirect
	DomainBlocked     = "blocked"     // the name has an address that is not public
	DomainUnreachable = "unreachable" // no answer
	DomainTLS         = "tls"         // the certificate is not valid for the name
)

// DomainErrors are the reasons why a check has found no proof.
var DomainErrors = []string{DomainNotFound, DomainMismatch, DomainRedirected, DomainBlocked, DomainUnreachable,
	DomainTLS}

// Statuses of a domain.
const (
	DomainPending  = "pending"
	DomainVerified = "verified"
	DomainExpired  = "expired"
)

const (
	// MaxDomains is the maximum number of domains.
	MaxDomains = 5
	// PendingDomainLife is how long a domain may wait for its first proof.
	PendingDomainLife = 7 * 24 * time.Hour
	// DomainGrace is the time between two missed checks after which a domain expires.
	DomainGrace = 24 * time.Hour
	// DomainSilence is the time after which a domain expires of which nothing is heard, and of no other domain either.
	DomainSilence = 7 * 24 * time.Hour

	domainTokenPrefix = "rvf_"
	domainTokenLength = 32
	maxDomainSeen     = 400 // bytes
)

func (*Domain) EntityKind() entity.Kind { return entity.KindDomain }

func (d *Domain) Hashed() entity.HashedSecret { return entity.HashedSecret{Hash: &d.Hash} }

// Status returns the status of the domain at a time.
func (d *Domain) Status(now time.Time) string {
	switch {
	case !d.ExpiredAt.IsZero(), d.VerifiedAt.IsZero() && !now.Before(d.CreatedAt.Add(PendingDomainLife)):
		return DomainExpired
	case d.VerifiedAt.IsZero():
		return DomainPending
	}
	return DomainVerified
}

// Ended reports whether the domain was never proven in the time for that. It can then only be deleted.
func (d *Domain) Ended(now time.Time) bool {
	return d.VerifiedAt.IsZero() && d.Status(now) == DomainExpired
}

// RecordName is the name of the TXT record that proves the hostname.
func (d *Domain) RecordName() string {
	host := d.Hostname
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return "_relay-challenge." + host
}

// RecordValue is the text of the TXT record that proves the hostname.
func (d *Domain) RecordValue() string { return "relay-verify=" + d.Token }

// FileURL is the URL of the file that proves the hostname. Its content is the token.
func (d *Domain) FileURL() string { return "https://" + d.Hostname + "/.well-known/relay-verify.txt" }

// Domains returns a page of the domains of an account; see List.
func (c Findings) Domains(account string, beforeSeq int64, limit int) ([]*Domain, bool) {
	return entity.List[Domain](c, account, beforeSeq, limit, nil)
}

// Derive gives a new domain its token.
func (d *Domain) Derive(_ *entity.Core, was entity.Value) error {
	if was == nil {
		d.Hash, d.Token = hashOfHostname(d.Hostname), newDomainToken()
	}
	return nil
}

func hashOfHostname(hostname string) []byte {
	hash := entity.HashOf("hostname " + hostname)
	return hash[:]
}

func newDomainToken() string {
	return domainTokenPrefix + encodeBase62(entity.RandomBytes(32), domainTokenLength)
}

// RecordDomainCheck stores the result of a check, unless a later one is stored. A proof verifies the domain. Misses of
// the method that has verified it make it expire when they are DomainGrace apart; silent ones, DomainSilence.
func (c Findings) RecordDomainCheck(ctx context.Context, id string, check DomainCheck) (*Domain, error) {
	return entity.Update(ctx, c, id, func(d *Domain) error {
		if check.At.Before(d.Checked.At) || d.Ended(check.At) {
			return nil
		}
		d.record(check)
		return nil
	})
}

func (d *Domain) record(check DomainCheck) {
	was := d.Status(check.At)
	d.Checked = check
	switch {
	case check.Error == "":
		if was != DomainVerified {
			d.VerifiedAt = check.At
		}
		d.Method, d.MissedAt, d.SilentAt, d.ExpiredAt = check.Method, time.Time{}, time.Time{}, time.Time{}
		return
	case was != DomainVerified || check.Method != d.Method:
		return
	}
	first, grace := &d.MissedAt, DomainGrace
	if check.Silent {
		first, grace = &d.SilentAt, DomainSilence
	} else {
		d.SilentAt = time.Time{}
	}
	if first.IsZero() {
		*first = check.At
	} else if check.At.Sub(*first) >= grace {
		d.ExpiredAt = check.At
	}
}

func (d *Domain) Validate() error {
	var wrong error
	if d.Hostname == "" || !bytes.Equal(d.Hash, hashOfHostname(d.Hostname)) {
		wrong = errors.New("hash is not that of the hostname")
	}
	text, prefixed := strings.CutPrefix(d.Token, domainTokenPrefix)
	if !prefixed || len(text) != domainTokenLength {
		wrong = errors.Join(wrong, errors.New("token is not one of a domain"))
	}
	return errors.Join(wrong, require.Text("hostname", d.Hostname, 1, require.MaxName),
		require.OneOf("method", d.Method, append([]string{""}, DomainMethods...)...),
		require.OneOf("checked.method", d.Checked.Method, append([]string{""}, DomainMethods...)...),
		require.OneOf("checked.error", d.Checked.Error, slices.Concat([]string{""}, DomainErrors)...),
		require.Range("checked.seen", len(d.Checked.Seen), 0, maxDomainSeen))
}
