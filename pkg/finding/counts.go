package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Counts is what one node has received from one sender in one minute so far. It is a record of the topic findings too,
// with the sender as its key; Version orders the reports of one boot of a node, and the last one counts.
type Counts struct {
	Account  string    // acc_…
	Sender   string    // drn_… or dsn_…
	Minute   time.Time // the start of the minute, UTC
	Node     string
	Boot     [16]byte // random for each start of the node
	Version  uint64   // number of the report within Boot
	Requests uint64
	Lines    uint64
	Bytes    uint64 // of bodies, uncompressed
	Hits     uint64
	Rejected uint64 // requests that were refused
	LastAt   time.Time
	Platform string // of a drain, as it was detected
	// LastError is the code of the newest refusal of the minute; empty = none. It is from a closed list, and has no text
	// of a client.
	LastError string
}

type countsJSON struct {
	V         int    `json:"v"`
	Type      string `json:"t"`
	Account   string `json:"acc"`
	Sender    string `json:"snd"`
	Minute    int64  `json:"min"` // Unix seconds
	Node      string `json:"node"`
	Boot      []byte `json:"boot"`
	Version   uint64 `json:"ver"`
	Requests  uint64 `json:"req,omitempty"`
	Lines     uint64 `json:"lines,omitempty"`
	Bytes     uint64 `json:"bytes,omitempty"`
	Hits      uint64 `json:"hits,omitempty"`
	Rejected  uint64 `json:"rej,omitempty"`
	LastAt    int64  `json:"last"` // Unix milliseconds
	Platform  string `json:"plat,omitempty"`
	LastError string `json:"err,omitempty"`
}

// ErrNotCounts means that a record of the topic findings is valid, but no Counts.
var ErrNotCounts = errors.New("the record has no counts")

// Encode returns the value of the record.
func (c *Counts) Encode() []byte {
	b, err := json.Marshal(countsJSON{
		V: version, Type: countsType, Account: c.Account, Sender: c.Sender, Minute: c.Minute.Unix(), Node: c.Node,
		Boot: c.Boot[:], Version: c.Version, Requests: c.Requests, Lines: c.Lines, Bytes: c.Bytes, Hits: c.Hits,
		Rejected: c.Rejected, LastAt: c.LastAt.UnixMilli(), Platform: CleanLine(c.Platform, maxName),
		LastError: CleanLine(c.LastError, maxName),
	})
	if err != nil { // no member can fail
		panic(fmt.Sprintf("BUG: encode counts: %v", err))
	}
	return b
}

// DecodeCounts reads the value of a record of the topic findings. It returns ErrNotCounts for a Hit.
func DecodeCounts(value []byte) (*Counts, error) {
	switch t, err := typeOf(value); {
	case err != nil:
		return nil, err
	case t == hitType:
		return nil, ErrNotCounts
	case t != countsType:
		return nil, fmt.Errorf("decode a record of findings: type %q does not exist", t)
	}
	var w countsJSON
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, fmt.Errorf("decode counts: %w", err)
	}
	if w.Account == "" || w.Sender == "" || w.Node == "" || len(w.Boot) != 16 || w.Minute <= 0 {
		return nil, errors.New("decode counts: account, sender, node, boot or minute is missing")
	}
	return &Counts{
		Account: w.Account, Sender: w.Sender, Minute: time.Unix(w.Minute, 0).UTC(), Node: w.Node, Boot: [16]byte(w.Boot),
		Version: w.Version, Requests: w.Requests, Lines: w.Lines, Bytes: w.Bytes, Hits: w.Hits, Rejected: w.Rejected,
		LastAt: time.UnixMilli(w.LastAt).UTC(), Platform: w.Platform, LastError: w.LastError,
	}, nil
}

// Check returns why no reader can use the value of a record of the topic findings; nil when it can.
func Check(value []byte) error {
	_, err := Decode(value)
	if errors.Is(err, ErrNotHit) {
		_, err = DecodeCounts(value)
	}
	return err
}
