// Package payload finds secrets in the payloads of stored events and turns them into hits.
//
// The writer of the store calls Scanner.Scan with the events of each flush, while it inserts their rows, and commits
// their offsets when Scan has returned. So each event is scanned at least once, and one that is scanned again makes the
// same hits. Bodies and query strings are scanned, and headers without those that carry credentials. Only
// tokens that must stay on servers are looked for: events are full of values that are named secret or token and are
// none.
//
// Whoever knows an ingest URL can post made-up keys. Hits of requests whose signature was not verified say so, and an
// endpoint opens a bounded number of findings a day (bounds.go). Begin reading at Scanner.Scan.
package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Configuration is the part of the configuration that the scanner needs.
type Configuration interface {
	// ScansPayloads reports whether the payloads of an endpoint's events are scanned, and returns the endpoint's name.
	ScansPayloads(endpoint string) (name string, scans bool)
	// CustomRules returns the account's own rules, and a revision that changes with them.
	CustomRules() (rules []secrets.Custom, revision int64)
	intake.Configuration
	// TripwireByToken returns the tripwire whose ingest URL has a token; nil if none has it.
	TripwireByToken(token string) *leak.Tripwire
}

// Deps are the dependencies of a Scanner. All are required.
type Deps struct {
	Log        *slog.Logger
	Metrics    prometheus.Registerer
	Config     Configuration
	Producer   intake.Producer
	Findings   intake.Distinct // new findings of each endpoint and day
	Partitions int32           // of the topic findings
}

// Scanner scans payloads. It is safe for concurrent use.
type Scanner struct {
	deps    Deps
	tokens  *secrets.Scanners // what is looked for
	leaks   *secrets.Scanners // mask all secrets in untrusted text
	metrics *metrics
}

// Bounds of the work for one event.
const (
	// maxUnverified is how much of the body of a request is scanned whose signature was not verified, in bytes.
	maxUnverified = 64 << 10
	// maxMatches bounds the secrets of one event; what follows them is not looked at.
	maxMatches = 200
	// maxRecords bounds the hit records of one event, those of our own API keys and of tripwires apart. Secrets beyond it
	// are counted in the endpoint's finding flood.
	maxRecords = 20
	// maxBatch is the number of hits that are produced at once.
	maxBatch = 1_000
)

// New returns a Scanner and registers its metrics.
func New(deps Deps) (*Scanner, error) {
	leaks, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	tokens, err := secrets.NewSubset(secrets.ForLeaks, func(r *secrets.Rule) bool {
		return r.Kind == secrets.KindToken && r.Exposure == secrets.Server
	})
	if err != nil {
		return nil, err
	}
	isFake := func(token string) bool { return deps.Config.TripwireByToken(token) != nil }
	if tokens, err = tokens.WithIngestURLs(isFake); err != nil {
		return nil, err
	}
	return &Scanner{deps, secrets.NewScanners(tokens), secrets.NewScanners(leaks), newMetrics(deps.Metrics)}, nil
}

// Scan produces the hits of events and returns when the log has acknowledged them. It repeats what fails until ctx
// ends; only then it returns an error. The events must not be changed meanwhile.
func (s *Scanner) Scan(ctx context.Context, events []*event.Event) error {
	var gathered []*hit
	x := &scan{s: s} // one for all events: it has their buffers
	endpoints := map[string]endpoint{}
	rules, revision := s.deps.Config.CustomRules()
	for _, e := range events {
		from, known := endpoints[e.Endpoint]
		if !known {
			from.name, from.scans = s.deps.Config.ScansPayloads(e.Endpoint)
			endpoints[e.Endpoint] = from
		}
		if !from.scans || e.OnlyGroup != "" { // what one group processes again was scanned before
			continue
		}
		x.tokens, x.leaks = s.tokens.For(e.Account, revision, rules), s.leaks.For(e.Account, revision, rules)
		x.e, x.name, x.headers, x.found = e, from.name, x.headers[:0], x.found[:0]
		x.list, x.bounded, x.beyond = nil, 0, nil
		if err := x.run(ctx); err != nil {
			return err
		}
		if gathered = append(gathered, x.list...); len(gathered) >= maxBatch {
			if err := s.store(ctx, gathered); err != nil {
				return err
			}
			gathered = nil
		}
	}
	return s.store(ctx, gathered)
}

// endpoint is what the configuration says about an endpoint.
type endpoint struct {
	name  string
	scans bool
}

// hit is a hit of an event.
type hit struct {
	finding.Hit
	beyond bool // counts secrets without a record of their own
	flood  *hit // takes its place if its finding is beyond the bounds
}

// scan is the scan of one event.
type scan struct {
	s       *Scanner
	tokens  *secrets.Scanner // with the account's own rules, as leaks
	leaks   *secrets.Scanner
	e       *event.Event
	name    string // of the endpoint
	headers []byte
	found   []match
	keys    finding.Keys
	list    []*hit
	bounded int  // how many of list count for maxRecords
	beyond  *hit // the one of list that counts secrets without a record; nil = none
}

// match is a secret and where it was found.
type match struct {
	secrets.Match
	in   []byte
	part part
	name string // of the header, or of the query's parameter
}

// part is where in an event a secret can be.
type part int64

const (
	inBody part = iota
	inHeader
	inQuery
)

var partNames = [...]string{inBody: "body", inHeader: "header", inQuery: "query"}

// partOffset separates the offsets of the parts of an event.
const partOffset = 1 << 40

func (x *scan) run(ctx context.Context) error {
	body := x.e.Body
	if x.unverified() {
		body = body[:min(len(body), maxUnverified)]
	}
	x.tokens.Scan(body, func(m secrets.Match) bool { return x.add(match{Match: m, in: body}) })
	x.scanHeaders()
	x.scanQuery()
	x.s.metrics.bytes.Add(float64(len(body) + len(x.headers) + len(x.e.Query)))
	if len(x.found) == 0 {
		return nil
	}
	var err error
	if x.keys, err = x.s.findingKeys(ctx, len(x.found)); err != nil {
		return err
	}
	if x.keys.Salt == nil {
		return nil
	}
	at := pointers{body: x.e.Body}
	for _, m := range x.found {
		var pointer string
		switch m.part {
		case inHeader:
			pointer = "/headers/" + m.name
		case inQuery:
			pointer = "/query/" + m.name
		default:
			pointer = at.find(m.Start)
		}
		x.record(m, x.clean(pointer))
	}
	return nil
}

// add records a secret. It returns false when there are enough.
func (x *scan) add(m match) bool {
	x.found = append(x.found, m)
	return len(x.found) < maxMatches
}

// unverified reports whether anybody could have sent the event.
func (x *scan) unverified() bool {
	return x.e.Source == event.SourceProvider && x.e.Verdict != event.VerdictVerified
}

// record adds the hit of a secret at a location, or counts it in the one that is there.
func (x *scan) record(m match, pointer string) {
	secret := m.in[m.Start:m.End]
	fingerprint := ""
	if m.Rule.Fingerprint {
		fingerprint = x.keys.Fingerprint(x.keys.SaltedHash(m.Rule.Canonical(secret)))
	}
	location := x.location(pointer)
	hash := location.Hash()
	name := x.keys.ID(m.Rule.ID, fingerprint, hash)
	for _, h := range x.list {
		if h.Finding == name && h.LocationHash == hash {
			h.N++
			return
		}
	}
	h := x.newHit(m, name)
	h.Fingerprint, h.Location, h.LocationHash = fingerprint, location, hash
	intake.SetSeverity(x.s.deps.Config, &h.Hit, finding.ContextOf(m.Rule))
	intake.SeenTripwire(x.s.deps.Config, &h.Hit, &x.keys)
	if h.KeyID == "" && h.Kind != finding.Tripwire { // nobody can make those up, and made-up keys must not hide them
		if x.bounded == maxRecords {
			x.countBeyond()
			return
		}
		x.bounded++
	}
	h.flood = x.floodHit(1)
	x.list = append(x.list, h)
}

// newHit returns the hit of a secret without what depends on its location and fingerprint.
func (x *scan) newHit(m match, name string) *hit {
	offset := int64(m.Start) + int64(m.part)*partOffset
	h := x.hit(m.Rule.ID, name)
	h.ID = finding.HitID(x.e.Endpoint, x.e.ID.Text(id.Event), offset)
	h.RuleName = m.Rule.CustomName()
	h.Channel, h.Test, h.Masked = partNames[m.part], m.Rule.Test, m.Rule.Mask(m.in[m.Start:m.End])
	return h
}

// hit returns a hit of this event.
func (x *scan) hit(rule, name string) *hit {
	at := x.e.ReceivedAt().UTC()
	return &hit{Hit: finding.Hit{
		Account: x.e.Account, Finding: name, At: at, ObservedAt: at, N: 1, Kind: finding.Secret, Rule: rule,
		Source: finding.Event, Sender: x.e.Endpoint, Unverified: x.unverified(), Method: x.e.Method,
		Agent: x.clean(x.e.HeaderValue("User-Agent")), RemoteIP: x.e.RemoteIP,
	}}
}

// location returns a location in the events of the endpoint. The event is no part of its hash.
func (x *scan) location(pointer string) finding.Location {
	return finding.Location{
		Source: finding.Event, Label: x.clean(x.name), Pointer: pointer, EndpointID: x.e.Endpoint,
		EventID: x.e.ID.Text(id.Event),
	}
}

// countBeyond counts a secret that has no record of its own.
func (x *scan) countBeyond() {
	if x.beyond == nil {
		x.beyond = x.floodHit(0)
		x.list = append(x.list, x.beyond)
	}
	x.beyond.N++
}

// floodHit returns the hit of secrets beyond the bounds. There is one for each minute: what comes later in the minute
// is not counted, so that made-up keys make no rows.
func (x *scan) floodHit(n uint32) *hit {
	h := x.hit(finding.RuleFlood, "")
	h.beyond, h.Channel, h.Location = true, "body", x.location("")
	h.LocationHash = h.Location.Hash()
	intake.SetFlood(&h.Hit, uint64(n), &x.keys)
	h.ID = finding.HitID(x.e.Endpoint, "flood "+h.At.Truncate(time.Minute).Format(time.RFC3339), 0)
	return h
}

func (x *scan) clean(text string) string { return intake.CleanText(x.leaks, text) }

// signatureName matches the names of headers that sign the request.
var signatureName = regexp.MustCompile(`(?i)sign|hmac|digest|nonce`)

// carriesCredentials reports whether a header is there to carry a credential or a signature: that is no leak.
func carriesCredentials(name string) bool {
	return config.CredentialHeader(name) || signatureName.MatchString(name)
}

// scanHeaders scans the values of all headers in one text, a line for each. Only where a secret is, the name of the
// header is looked at.
func (x *scan) scanHeaders() {
	for _, f := range x.e.Header {
		x.headers = append(append(x.headers, f.Value...), '\n')
	}
	x.tokens.Scan(x.headers, func(m secrets.Match) bool {
		name := x.headerAt(m.Start)
		return carriesCredentials(name) || x.add(match{Match: m, in: x.headers, part: inHeader, name: name})
	})
}

// scanQuery scans the query string as it was sent. A secret is at the parameter that it stands in.
func (x *scan) scanQuery() {
	if x.e.Query == "" {
		return
	}
	query := []byte(x.e.Query)
	x.tokens.Scan(query, func(m secrets.Match) bool {
		name := query[bytes.LastIndexByte(query[:m.Start], '&')+1 : m.Start]
		if i := bytes.IndexByte(name, '='); i >= 0 {
			name = name[:i]
		}
		return x.add(match{Match: m, in: query, part: inQuery, name: string(name)})
	})
}

// headerAt returns the name of the header whose value has that byte of the text.
func (x *scan) headerAt(offset int) string {
	for _, f := range x.e.Header {
		if offset <= len(f.Value) {
			return f.Name
		}
		offset -= len(f.Value) + 1
	}
	return ""
}

// maxPointer bounds a JSON pointer in bytes. A longer one is cut.
const maxPointer = 300

// pointers finds the JSON pointers (RFC 6901) of places in a body. The places must be asked for in ascending order.
type pointers struct {
	body   []byte
	reader *json.Decoder
	path   []step
	ended  bool // the body is no JSON, or has been read
}

// step is an object or array around the place that was read last.
type step struct {
	array bool
	index int    // of the element in the array
	name  string // of the member of the object
	named bool   // the name was read, and its value was not
}

// find returns the pointer to the value that has the byte with that offset; empty if the body is no JSON.
func (p *pointers) find(offset int) string {
	if p.reader == nil {
		p.reader = json.NewDecoder(bytes.NewReader(p.body))
		p.reader.UseNumber()
	}
	for !p.ended && p.reader.InputOffset() <= int64(offset) {
		token, err := p.reader.Token()
		if err != nil {
			p.ended, p.path = true, nil
			break
		}
		p.advance(token)
	}
	return p.text()
}

// advance moves the path on behind a token.
func (p *pointers) advance(token json.Token) {
	if mark, ok := token.(json.Delim); ok && (mark == '}' || mark == ']') {
		p.path = p.path[:len(p.path)-1]
		return
	}
	if n := len(p.path); n > 0 {
		last := &p.path[n-1]
		switch {
		case last.array:
			last.index++
		case !last.named:
			last.name, _ = token.(string)
			last.named = true
			return
		default:
			last.named = false
		}
	}
	if mark, ok := token.(json.Delim); ok {
		p.path = append(p.path, step{array: mark == '[', index: -1})
	}
}

// escapes are those of JSON pointers.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func (p *pointers) text() string {
	var b strings.Builder
	for _, s := range p.path {
		if b.Len() > maxPointer {
			break
		}
		b.WriteByte('/')
		if s.array {
			b.WriteString(strconv.Itoa(max(s.index, 0)))
		} else {
			b.WriteString(escapes.Replace(s.name[:min(len(s.name), maxPointer)]))
		}
	}
	return b.String()
}
