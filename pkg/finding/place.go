package finding

import (
	"crypto/sha256"
	"net/url"
	"strings"
)

// Place is where a sender saw a hit. Its JSON is what the API shows as a location. All text in it is untrusted; Encode
// cleans it.
type Place struct {
	Source Source `json:"source"`
	// Label names the place for people: the application that wrote the line, the domain, or the name of the sender.
	Label    string `json:"label"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Function string `json:"function,omitempty"`
	URL      string `json:"url,omitempty"`     // without query and fragment
	Pointer  string `json:"pointer,omitempty"` // JSON pointer (RFC 6901) into an event

	DrainID    string `json:"drain_id,omitempty"`
	DSNID      string `json:"dsn_id,omitempty"`
	EndpointID string `json:"endpoint_id,omitempty"`
	ScanID     string `json:"scan_id,omitempty"`
	TripwireID string `json:"tripwire_id,omitempty"`
}

// Bounds of the text of a place, in bytes.
const (
	maxLabel = 100
	maxPath  = 300 // file, function, URL, pointer
)

// clean returns the place with untrusted text cleaned and cut.
func (p Place) clean() Place {
	p.Label = CleanLine(p.Label, maxLabel)
	p.URL = withoutQuery(p.URL)
	for _, text := range []*string{&p.File, &p.Function, &p.URL, &p.Pointer} {
		*text = CleanLine(*text, maxPath)
	}
	p.Line = max(p.Line, 0)
	return p
}

// Location returns the hash by which the hits of a finding are grouped into locations. It depends on the stable part of
// the place: file and function of an SDK, application of a drain, host and path of a scan, endpoint and pointer of an
// event, without indexes of arrays.
func (p Place) Location() (hash [16]byte) {
	p = p.clean()
	parts := []string{string(p.Source)}
	switch p.Source {
	case SDK:
		parts = append(parts, p.File, p.Function)
	case Drain:
		parts = append(parts, p.DrainID, p.Label)
	case Scan:
		parts = append(parts, hostAndPath(p.URL))
	case FromTripwire:
		parts = append(parts, p.TripwireID)
	case Event:
		parts = append(parts, p.EndpointID, WithoutIndexes(p.Pointer))
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

// WithoutIndexes replaces each index of an array in a JSON pointer by *.
func WithoutIndexes(pointer string) string {
	parts := strings.Split(pointer, "/")
	for i, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}
