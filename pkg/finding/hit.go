package finding

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Hit is one record of the topic findings: a sender has seen a secret, an exposed file or a tripwire. The record's key
// is Finding.
type Hit struct {
	Account string `json:"acc"` // acc_…
	Finding string `json:"fnd"` // fnd_…; see Keys.ID
	// ID identifies the hit, see HitID. What is produced or sent twice has the same one, and counts once.
	ID [16]byte `json:"-"`
	// Day is the UTC day of the arrival, as 2006-01-02. Encode sets it from At when it is empty.
	Day string `json:"day"`
	// At is the arrival, ObservedAt the line's own time. Encode sets ObservedAt to At when it is zero or later than At.
	At         time.Time `json:"-"`
	ObservedAt time.Time `json:"-"`
	// N is how often it was seen in this request, at least 1.
	N    uint32 `json:"n"`
	Kind Kind   `json:"kind"`
	Rule string `json:"rule"` // id of the rule
	// RuleName is the name of a customer's rule, which may be deleted later; empty for a built-in one.
	RuleName string `json:"rname,omitempty"`
	Source   Source `json:"src"`
	// Channel is the part of the source: log, response, report; a drain's platform; body, header or query of an event.
	Channel string `json:"chn,omitempty"`
	Sender  string `json:"snd"` // drn_…, dsn_…, scn_…, trw_… or ep_…
	// Severity is that of the rule in this context; see SeverityOf.
	Severity Severity `json:"sev"`
	// Unverified: only a browser's DSN or an event without a verified signature says so. Anybody could have sent it.
	Unverified bool `json:"unv,omitempty"`
	Test       bool `json:"test,omitempty"` // a key made for tests
	Billed     bool `json:"bill,omitempty"` // counts for the usage of findings
	// Masked shows enough of the secret to recognise it, at most maxMasked bytes. Fingerprint is fpr_…, or empty.
	Masked      string   `json:"mask,omitempty"`
	Fingerprint string   `json:"fpr,omitempty"`
	Location    Location `json:"place"`
	// LocationHash is the hash of the stable part of Location. Encode sets it when it is zero.
	LocationHash [16]byte `json:"-"`
	// What the request says about its origin: untrusted text.
	Environment string     `json:"env,omitempty"`
	Release     string     `json:"rel,omitempty"`
	KeyID       string     `json:"key,omitempty"` // key_… when it is one of our own API keys
	Method      string     `json:"meth,omitempty"`
	Agent       string     `json:"ua,omitempty"`
	RemoteIP    netip.Addr `json:"ip,omitzero"`
}

// Bounds of the text of a hit, in bytes; those of a location are beside Location.
const (
	maxMasked   = 80
	maxRule     = 100
	maxRuleName = 400 // 100 characters
	maxName     = 100 // environment, release, channel, method
	maxAgent    = 300
	dayLayout   = time.DateOnly
	hitType     = "hit"
	countsType  = "counts"
	version     = 1
)

// hitJSON is the encoding of a Hit. Names are short because there are many records.
type hitJSON struct {
	Version int    `json:"v"`
	Type    string `json:"t"`
	Hit
	ID           []byte `json:"hit"`
	At           int64  `json:"at"`  // Unix milliseconds
	ObservedAt   int64  `json:"obs"` // Unix milliseconds
	LocationHash []byte `json:"loc"`
}

// Encode returns the value of the hit's record. It cleans and cuts untrusted text, so no sender can forget to.
func (h *Hit) Encode() []byte {
	x, at := *h, h.At.UTC()
	if x.ObservedAt.IsZero() || x.ObservedAt.After(at) {
		x.ObservedAt = at
	}
	if x.Day == "" {
		x.Day = at.Format(dayLayout)
	}
	x.Location = h.Location.clean()
	if x.LocationHash == [16]byte{} {
		x.LocationHash = x.Location.Hash()
	}
	x.N, x.Severity = max(x.N, 1), min(max(x.Severity, Low), Critical)
	x.Rule, x.RuleName = CleanLine(x.Rule, maxRule), CleanLine(x.RuleName, maxRuleName)
	x.Masked, x.Agent = CleanLine(x.Masked, maxMasked), CleanLine(x.Agent, maxAgent)
	for _, text := range []*string{&x.Channel, &x.Environment, &x.Release, &x.Method} {
		*text = CleanLine(*text, maxName)
	}
	b, err := json.Marshal(hitJSON{version, hitType, x, x.ID[:], at.UnixMilli(), x.ObservedAt.UnixMilli(),
		x.LocationHash[:]})
	if err != nil { // no member can fail: the severity is one that exists
		panic(fmt.Sprintf("BUG: encode a hit: %v", err))
	}
	return b
}

// ErrNotHit means that a record of the topic findings is valid, but no Hit.
var ErrNotHit = errors.New("the record is no hit")

// typeOf returns the type of a record of the topic findings.
func typeOf(value []byte) (string, error) {
	var head struct {
		Version int    `json:"v"`
		Type    string `json:"t"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return "", fmt.Errorf("decode a record of findings: %w", err)
	}
	if head.Version != version {
		return "", fmt.Errorf("decode a record of findings: version %d is not supported", head.Version)
	}
	return head.Type, nil
}

// Decode reads the value of a record of the topic findings. It returns ErrNotHit for a Counts.
func Decode(value []byte) (*Hit, error) {
	switch t, err := typeOf(value); {
	case err != nil:
		return nil, err
	case t == countsType:
		return nil, ErrNotHit
	case t != hitType:
		return nil, fmt.Errorf("decode a record of findings: type %q does not exist", t)
	}
	var w hitJSON
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, fmt.Errorf("decode hit: %w", err)
	}
	if err := w.validate(); err != nil {
		return nil, fmt.Errorf("decode hit: %w", err)
	}
	w.Hit.ID, w.Hit.LocationHash = [16]byte(w.ID), [16]byte(w.LocationHash)
	w.Hit.At, w.Hit.ObservedAt = time.UnixMilli(w.At).UTC(), time.UnixMilli(w.ObservedAt).UTC()
	return &w.Hit, nil
}

// validate returns why no reader can use the record; nil when it can.
func (w *hitJSON) validate() error {
	_, dayErr := time.Parse(dayLayout, w.Day)
	switch {
	case w.Account == "" || w.Sender == "" || CleanLine(w.Rule, maxRule) == "": // Encode cleans it
		return errors.New("account, sender or rule is missing")
	case !Valid(w.Finding):
		return errors.New("the finding's id is malformed")
	case len(w.ID) != 16 || len(w.LocationHash) != 16:
		return errors.New("a hash is not 16 bytes long")
	case dayErr != nil:
		return dayErr
	case w.At <= 0 || w.ObservedAt > w.At || w.N == 0 || w.Severity == 0:
		return errors.New("a time, the number or the severity is missing")
	case w.Kind != Secret && w.Kind != ExposedFile && w.Kind != Tripwire:
		return fmt.Errorf("kind %q does not exist", w.Kind)
	case !slices.Contains(Sources, w.Source):
		return fmt.Errorf("source %q does not exist", w.Source)
	}
	return nil
}

// Location is where a hit was seen. Its JSON is what the API shows as a location. All text in it is untrusted; Encode
// cleans it.
type Location struct {
	Source Source `json:"source"`
	// Label names the location for people: the application that wrote the line, the domain, or the name of the sender.
	Label    string `json:"label"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Function string `json:"function,omitempty"`
	URL      string `json:"url,omitempty"`     // without query and fragment
	Pointer  string `json:"pointer,omitempty"` // JSON pointer (RFC 6901) into an event

	DrainID    string `json:"drain_id,omitempty"`
	DSNID      string `json:"dsn_id,omitempty"`
	EndpointID string `json:"endpoint_id,omitempty"`
	EventID    string `json:"event_id,omitempty"` // of the newest hit; no part of Hash
	ScanID     string `json:"scan_id,omitempty"`
	TripwireID string `json:"tripwire_id,omitempty"`
}

// Bounds of the text of a location, in bytes.
const (
	maxLabel = 100
	maxPath  = 300 // file, function, URL, pointer
)

// clean returns the location with untrusted text cleaned and cut.
func (l Location) clean() Location {
	l.Label = CleanLine(l.Label, maxLabel)
	l.URL = withoutQuery(l.URL)
	for _, text := range []*string{&l.File, &l.Function, &l.URL, &l.Pointer} {
		*text = CleanLine(*text, maxPath)
	}
	l.Line = max(l.Line, 0)
	return l
}

// Hash returns the hash by which the hits of a finding are grouped. It depends on the stable part of the location: file
// and function of an SDK, or the path of a response without numbers, application of a drain, host and path of a scan,
// endpoint and pointer of an event, without indexes of arrays.
func (l Location) Hash() (hash [16]byte) {
	l = l.clean()
	parts := []string{string(l.Source)}
	switch l.Source {
	case SDK:
		parts = append(parts, l.File, l.Function, withoutIndexes(l.URL))
	case Drain:
		parts = append(parts, l.DrainID, l.Label)
	case Scan:
		parts = append(parts, hostAndPath(l.URL))
	case FromTripwire:
		parts = append(parts, l.TripwireID)
	case Event:
		parts = append(parts, l.EndpointID, withoutIndexes(l.Pointer))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	copy(hash[:], sum[:])
	return hash
}

// withoutQuery removes query, fragment and credentials of a URL. It cuts a text that is no URL before ? or #.
func withoutQuery(s string) string {
	s, _, _ = strings.Cut(s, "#")
	s, _, _ = strings.Cut(s, "?")
	if u, err := url.Parse(s); err == nil && u.User != nil {
		u.User = nil
		return u.String()
	}
	return s
}

// hostAndPath returns host and path of a URL, the text itself when it is none.
func hostAndPath(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	return strings.ToLower(u.Host) + u.EscapedPath()
}

// withoutIndexes replaces each index of an array in a JSON pointer by *.
func withoutIndexes(pointer string) string {
	parts := strings.Split(pointer, "/")
	for i, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}
