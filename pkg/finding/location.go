package finding

import (
	"crypto/sha256"
	"net/url"
	"strings"
)

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
