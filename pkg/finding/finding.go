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
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
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

// Status says what people did about a finding.
type Status string

// Statuses of a finding.
const (
	Open         Status = "open"
	Acknowledged Status = "acknowledged"
	Resolved     Status = "resolved"
	Ignored      Status = "ignored"
)

// Statuses are all of them, in the order of a finding's life.
var Statuses = []Status{Open, Acknowledged, Resolved, Ignored}

// nextStatuses are the statuses that people can give a finding. The service opens resolved and ignored findings again.
var nextStatuses = map[Status][]Status{
	Open:         {Acknowledged, Resolved, Ignored},
	Acknowledged: {Open, Resolved, Ignored},
	Resolved:     {Open},
	Ignored:      {Open},
}

// Next returns the statuses that people can give a finding with status s.
func (s Status) Next() []Status { return slices.Clone(nextStatuses[s]) }

// MayBecome reports whether people can change the status of a finding from s to another one.
func (s Status) MayBecome(to Status) bool { return slices.Contains(nextStatuses[s], to) }

// Outstanding reports whether somebody still has to act: the finding is neither resolved nor ignored.
func (s Status) Outstanding() bool { return s == Open || s == Acknowledged }

// Resolutions are the reasons for which a finding is resolved.
var Resolutions = []string{"revoked", "removed", "false_positive"}

// IgnoreReasons are the reasons for which a finding is ignored.
var IgnoreReasons = []string{"false_positive", "used_in_tests", "accepted_risk"}

// RegressionDelay is how long after its resolution a secret may still be seen without being opened again: what was on
// its way then needs time to arrive.
const RegressionDelay = time.Hour

// Regresses reports whether a hit opens a finding that was resolved at resolvedAt. The line's own time counts, so that
// old lines which arrive late open nothing; hits that nobody has verified open nothing either.
func (h *Hit) Regresses(resolvedAt time.Time) bool {
	return !h.Unverified && h.ObservedAt.Sub(resolvedAt) > RegressionDelay
}

// TripwireReminder is how often people are notified of a tripwire that is used again while they know of it.
const TripwireReminder = time.Hour

// FloodReminder is how often people are notified of a flood that goes on: it hides new secrets.
const FloodReminder = 24 * time.Hour

// Transition is a change of a finding about which people are notified.
type Transition string

// Transitions. Unchanged is no transition.
const (
	Unchanged Transition = ""
	Opened    Transition = "opened"    // it was seen for the first time, or verified for the first time
	Reopened  Transition = "reopened"  // it was seen again after its resolution, or is ignored no longer
	Continued Transition = "continued" // see FloodReminder and TripwireReminder
)

// Severity says how much harm a finding can do; the greater, the worse. Its text is critical, high, medium or low.
type Severity uint8

// Severities. Zero is no severity.
const (
	Low Severity = iota + 1
	Medium
	High
	Critical
)

var severities = []string{Low: "low", Medium: "medium", High: "high", Critical: "critical"}

// String returns the text of a severity; empty for one that does not exist.
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return ""
}

// ParseSeverity is the reverse of Severity.String.
func ParseSeverity(text string) (Severity, error) {
	if i := slices.Index(severities, text); i > 0 {
		return Severity(i), nil
	}
	return 0, fmt.Errorf("severity %q does not exist: want critical, high, medium or low", text)
}

// MarshalText returns the text of a severity; empty for none.
func (s Severity) MarshalText() ([]byte, error) {
	if s > Critical {
		return nil, fmt.Errorf("severity %d does not exist", s)
	}
	return []byte(severities[s]), nil
}

// UnmarshalText is the reverse of MarshalText.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*s = 0
		return nil
	}
	*s, err = ParseSeverity(string(text))
	return err
}

// Context is everything that the severity of a hit depends on.
type Context struct {
	Rule     string   // id of the rule
	Severity Severity // of the rule
	Own      Severity // of a rule of the account's settings; zero = it is another one
	Kind     Kind
	Source   Source
	// Public means that everybody could read it: a scan found it, or a server's SDK in a response.
	Public bool
	// Server is false for what clients may know, such as publishable keys (the rule's exposure is "public").
	Server bool
	// Test marks keys of a provider's test mode, and our own.
	Test bool
	// KeyWorks means that it is one of our own API keys, and that it is accepted now.
	KeyWorks bool
}

// ContextOf returns what a rule says about the severity of its hits.
func ContextOf(rule *secrets.Rule) Context {
	s, err := ParseSeverity(string(rule.Severity))
	if err != nil {
		panic("BUG: rule " + rule.ID + ": " + err.Error()) // package secrets checks its rules
	}
	c := Context{Rule: rule.ID, Severity: s, Kind: Secret, Server: rule.Exposure == secrets.Server, Test: rule.Test}
	if rule.CustomName() != "" {
		c.Own = s
	}
	return c
}

// SeverityOf returns the severity of a hit: that of the rule, changed by where the secret was seen.
func SeverityOf(c Context) Severity {
	switch {
	case c.Kind == Tripwire && c.Test:
		return Low
	case c.Kind == Tripwire && c.Source == FromTripwire || c.KeyWorks:
		return Critical
	case c.Kind == Tripwire || c.Rule == RuleFlood:
		return High
	case c.Test:
		return Low
	case c.Own != 0:
		return min(c.Own, High)
	case c.Rule == RuleGeneric || strings.HasPrefix(c.Rule, CustomPrefix):
		return Medium
	case c.Public && c.Server:
		return Critical
	default:
		return min(c.Severity, High)
	}
}

// Keys derive the fingerprints and ids of an account's findings. They are the same on every node, and stay the same
// when the master keys change; pkg/config has them.
type Keys struct {
	// Salt is public to holders of a DSN. It makes the fingerprints of accounts differ.
	Salt []byte
	// Key is secret. It is derived from the service secret.
	Key [32]byte
}

// SaltedHash returns the first step of a fingerprint. It may leave a customer's process, and is never stored.
func (k *Keys) SaltedHash(secret []byte) [32]byte { return mac(k.Salt, secret) }

// Fingerprint returns the fingerprint that is stored: fpr_ and 32 hex digits.
func (k *Keys) Fingerprint(salted [32]byte) string {
	sum := mac(k.Key[:], salted[:])
	return FingerprintPrefix + hex.EncodeToString(sum[:16])
}

// ID returns the id of the finding of a secret with that fingerprint. Without a fingerprint all hits of a rule in one
// location are one finding.
func (k *Keys) ID(rule, fingerprint string, location [16]byte) string {
	text := fingerprint
	if text == "" {
		text = rule + "|" + hex.EncodeToString(location[:])
	}
	sum := mac(k.Key[:], []byte("id|"+text))
	return id.ID(sum[:16]).Text(Prefix)
}

// TripwireID returns the id of the finding of a tripwire, whichever of its secrets was used or seen. Tests have another
// one: they must not hide a use.
func (k *Keys) TripwireID(tripwire string, test bool) string {
	rule := RuleTripwire
	if test {
		rule += "-test"
	}
	return k.ID(rule, "", Location{Source: FromTripwire, TripwireID: tripwire}.Hash())
}

// HitID returns Hit.ID: the same for the same offset in the same record of a sender, however often it is sent.
func HitID(sender, record string, offset int64) (hit [16]byte) {
	b := append(append([]byte(sender), 0), record...)
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(offset))
	sum := sha256.Sum256(b)
	copy(hit[:], sum[:])
	return hit
}

func mac(key, msg []byte) (sum [32]byte) {
	h := hmac.New(sha256.New, key)
	h.Write(msg)
	h.Sum(sum[:0])
	return sum
}

// Clean returns untrusted text that people and agents may be shown. It removes invalid UTF-8, control characters except
// newline, and characters that are invisible or change the direction of text. It cuts the text after most bytes,
// between two characters.
func Clean(s string, most int) string {
	if i := strings.IndexFunc(s, isHidden); i < 0 && utf8.ValidString(s) {
		return cut(s, most)
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) || isHidden(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// CleanLine is Clean for text of one line: newlines become spaces.
func CleanLine(s string, most int) string { return strings.ReplaceAll(Clean(s, most), "\n", " ") }

// cut cuts valid UTF-8 after at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// isHidden reports whether a character has no place in text that is shown. Variation selectors have none either: a
// row of them can carry text that nobody sees.
func isHidden(r rune) bool {
	return r != '\n' && (web.IsInvisible(r) || unicode.Is(unicode.Variation_Selector, r))
}
