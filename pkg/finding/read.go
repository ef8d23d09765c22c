package finding

import (
	"net/netip"
	"time"
)

// Query selects findings. Values of one filter are alternatives; an empty filter matches all.
type Query struct {
	Account string
	Sources []Source
	Kinds   []Kind
	Rules   []string
	// Since and Until bound the last hit; Until is exclusive. Zero: no bound.
	Since, Until time.Time
	// Keep reports whether the configuration has the finding, with a status and a severity that the list asks for: the
	// store does not know them.
	Keep func(id string) bool
	// IDs are all findings that Keep may accept, at most 1,000, if the caller knows them; nil: any.
	IDs []string
	// After is the key of the last row of the page before; zero on the first page.
	After Key
	Limit int
}

// Key orders findings, newest first. It never changes.
type Key struct {
	FirstSeen time.Time
	ID        string
}

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.ID == "" }

// Row is what the store knows of one finding, from its hits.
type Row struct {
	ID          string
	Kind        Kind
	Rule        string
	Severity    Severity // the highest of its hits
	Masked      string
	Fingerprint string // fpr_…, or empty
	KeyID       string // key_…, or empty
	Unverified  bool   // no hit is verified
	Test        bool   // all hits are tests
	Sources     []Source
	FirstSeen   time.Time // arrival of the first hit
	LastSeen    time.Time // arrival of the newest hit
	Occurrences int64     // sum of Hit.N
	// Environment and Release are those of the newest hit.
	Environment, Release string
	Locations            []CountedLocation // the 20 with the newest hits, newest first
}

// Key returns the row's position in lists.
func (r *Row) Key() Key { return Key{r.FirstSeen, r.ID} }

// CountedLocation is a location with its hits.
type CountedLocation struct {
	Location
	Count    int64
	LastSeen time.Time
	Lines    []int // the 20 at which it was seen last, in their order in the file
}

// Page is one page of findings. Hits after AsOf may be missing; zero: none is.
type Page struct {
	Rows []Row
	More bool
	AsOf time.Time
}

// OccurrenceQuery selects the hits of a finding, newest first.
type OccurrenceQuery struct {
	Account string
	Finding string
	After   OccurrenceKey // the last row of the page before; zero on the first page
	Limit   int
}

// OccurrenceKey orders the hits of a finding, newest first. It never changes.
type OccurrenceKey struct {
	At  time.Time
	Hit [16]byte // Hit.ID
}

// Occurrence is a stored hit.
type Occurrence struct {
	OccurrenceKey
	ObservedAt           time.Time
	N                    int64
	Source               Source
	Channel              string
	Severity             Severity
	Unverified, Test     bool
	Location             Location
	Environment, Release string
	Method, Agent        string
	RemoteIP             netip.Addr   // invalid after 30 days, or if unknown
	RemoteNet            netip.Prefix // of RemoteIP, also after 30 days; invalid if unknown
}

// NetworkOf returns the /24 or /48 of an address, which may be kept longer than the address; invalid if there is none.
func NetworkOf(a netip.Addr) netip.Prefix {
	bits := 48
	if a = a.Unmap(); a.Is4() {
		bits = 24
	}
	network, err := a.Prefix(bits)
	if err != nil { // there is no address
		return netip.Prefix{}
	}
	return network
}

// OccurrencePage is one page of hits. Hits after AsOf may be missing; zero: none is.
type OccurrencePage struct {
	Rows []Occurrence
	More bool
	AsOf time.Time
}

// Received is what the service has received from one sender in a span, all nodes together. What a killed node had not
// reported yet is missing.
type Received struct {
	Requests, Lines, Bytes, Hits, Rejected int64
	LastAt                                 time.Time // of the newest request; zero: none
	Platform                               string    // detected for the newest request
	LastError                              string    // code of the newest refusal in the span; empty = none
}
