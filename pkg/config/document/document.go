// Package document writes and reads the document of an export. It is one JSON document with three parts: a header, one
// line for each entity in the order of their creation, and a footer with the SHA-256 of everything before it and a MAC
// under a master key. Secrets and ingest tokens are sealed as in the log, API keys are hashes, one-time links are left
// out. It knows no kind of entity.
package document

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// Format and version of the document.
const (
	Format  = "eventrelay.configuration"
	Version = 2
	// unsignedVersion is the version of exports without a MAC.
	unsignedVersion = 1
)

// Header is the first line of an export.
type Header struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	ExportedAt time.Time `json:"exported_at"`
	Program    string    `json:"program"`
	Account    string    `json:"account"`
	Sequence   int64     `json:"sequence"` // sequence of the exported state
	Partitions int32     `json:"partitions"`
	Entities   int       `json:"count"`
	// MasterKeys are the keys that open the secrets of the document, as name:fingerprint.
	MasterKeys []string `json:"master_keys"`

	footer exportFooter // set by Read
}

// exportedEntity is one line.
type exportedEntity struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
}

// exportFooter is the last line, without the bracket before it.
type exportFooter struct {
	SHA256 string `json:"sha256"`
	// MAC is the HMAC-SHA256 of SHA256, with a key derived from the master key with the id MACKey.
	MACKey string `json:"mac_key,omitempty"`
	MAC    string `json:"mac,omitempty"`
}

// ErrUnsigned means that a document has no MAC.
var ErrUnsigned = errors.New(
	"the document has no MAC: an older version wrote it, or something other than the relay")

// VerifyMAC returns an error unless a holder of one of the master keys wrote the document.
func (h *Header) VerifyMAC(keys *seal.Keyring) error {
	if h.Version == unsignedVersion {
		return ErrUnsigned
	}
	name, _, _ := strings.Cut(h.footer.MACKey, ":")
	if !slices.Contains(keys.IDs(), h.footer.MACKey) {
		return MissingMasterKey(keys, h.footer.MACKey)
	}
	got, err := hex.DecodeString(h.footer.MAC)
	if err != nil || !hmac.Equal(got, MAC(keys.MACKey(name), []byte(h.footer.SHA256))) {
		return fmt.Errorf("%w: its MAC does not match: it was changed by somebody without the master key %s",
			ErrInvalid, name)
	}
	return nil
}

// Write writes a document that [Read] reads. entities must yield exactly header.Entities pairs of kind and
// value. The MAC is made with the first of the keys.
func Write(
	to io.Writer, head Header, keys *seal.Keyring, entities iter.Seq2[string, json.RawMessage],
) error {
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 64<<10)
	first, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode the head of the export: %w", err)
	}
	fmt.Fprintf(w, "%s,\"entities\":[\n", bytes.TrimSuffix(first, []byte("}")))
	n := 0
	for kind, value := range entities {
		line, err := json.Marshal(exportedEntity{kind, value})
		if err != nil {
			return fmt.Errorf("encode a %s: %w", kind, err)
		}
		w.Write(line) // Flush returns its error
		if n++; n < head.Entities {
			w.WriteByte(',')
		}
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	foot := exportFooter{SHA256: hex.EncodeToString(sum.Sum(nil)), MACKey: keys.IDs()[0]}
	foot.MAC = hex.EncodeToString(MAC(keys.MACKey(keys.First()), []byte(foot.SHA256)))
	last, err := json.Marshal(foot)
	if err != nil {
		return fmt.Errorf("encode the end of the export: %w", err)
	}
	if _, err := fmt.Fprintf(to, "],%s\n", bytes.TrimPrefix(last, []byte("{"))); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// MAC returns the HMAC-SHA256 of a value.
func MAC(key, value []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(value)
	return h.Sum(nil)
}

// ErrInvalid means that a document is not a complete export that this program can read.
var ErrInvalid = errors.New("cannot read the export")

// maxExportLine is the maximum length of a line in bytes; records of the log are smaller.
const maxExportLine = 16 << 20

// Read reads a document, calls each for every entity, and verifies the checksum at the end. Do not use the
// entities before it has returned nil. It does not verify the MAC.
func Read(from io.Reader, each func(kind string, value json.RawMessage) error) (Header, error) {
	var head Header
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxExportLine)
	lines.Split(wholeLines)
	if !lines.Scan() {
		return head, errors.Join(fmt.Errorf("%w: it is empty", ErrInvalid), lines.Err())
	}
	opening, ok := bytes.CutSuffix(lines.Bytes(), []byte(",\"entities\":[\n"))
	if !ok || json.Unmarshal(append(bytes.Clone(opening), '}'), &head) != nil || head.Format != Format {
		return head, fmt.Errorf("%w: its first line was not written by relay config export; was the file reformatted?",
			ErrInvalid)
	}
	if head.Version != Version && head.Version != unsignedVersion {
		return head, fmt.Errorf("%w: it has version %d, this program reads versions %d and %d", ErrInvalid,
			head.Version,
			unsignedVersion, Version)
	}
	sum := sha256.New()
	sum.Write(lines.Bytes())
	for n := 0; lines.Scan(); n++ {
		line := lines.Bytes()
		if foot, last := bytes.CutPrefix(line, []byte("],")); last {
			return head, head.checkFooter(foot, sum, n, lines)
		}
		sum.Write(line)
		var e exportedEntity
		if err := json.Unmarshal(bytes.TrimSuffix(line, []byte(",\n")), &e); err != nil {
			return head, fmt.Errorf("%w: line %d: %w", ErrInvalid, n+2, err)
		}
		if err := each(e.Kind, e.Value); err != nil {
			return head, fmt.Errorf("line %d: %w", n+2, err)
		}
	}
	return head, errors.Join(fmt.Errorf("%w: it ends in the middle", ErrInvalid), lines.Err())
}

// checkFooter decodes the footer and compares the checksum and the number of entities n with it.
func (h *Header) checkFooter(line []byte, sum hash.Hash, n int, lines *bufio.Scanner) error {
	switch err := json.Unmarshal(append([]byte("{"), line...), &h.footer); {
	case err != nil:
		return fmt.Errorf("%w: its last line: %w", ErrInvalid, err)
	case h.footer.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return fmt.Errorf("%w: its checksum does not match: it was changed or is incomplete", ErrInvalid)
	case n != h.Entities:
		return fmt.Errorf("%w: it has %d entities, its first line says %d", ErrInvalid, n, h.Entities)
	case lines.Scan():
		return fmt.Errorf("%w: there is text after its end", ErrInvalid)
	}
	return nil
}

// wholeLines is a bufio.SplitFunc that keeps the line ends.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// MissingMasterKey returns an error that says how to provide the master key id, a name and a fingerprint or a name
// alone, which the document needs and this node lacks.
func MissingMasterKey(here *seal.Keyring, id string) error {
	name, fingerprint, _ := strings.Cut(id, ":")
	if fingerprint != "" {
		fingerprint = ", fingerprint " + fingerprint
	}
	if here.Has(name) {
		return fmt.Errorf("%w: the document needs another master key named %.100s than this node has%.100s; start with a "+
			"new data directory that contains the old master.keys, or with the old RELAY_MASTER_KEYS, then import",
			seal.ErrMissingKey, name, fingerprint)
	}
	return fmt.Errorf("%w: the document needs the master key %.100s%.100s; copy it to RELAY_MASTER_KEYS from the "+
		"master.keys or RELAY_MASTER_KEYS of the exporting installation, restart, then import", seal.ErrMissingKey, name,
		fingerprint)
}
