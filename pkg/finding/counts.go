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
	Account  string    `json:"acc"` // acc_…
	Sender   string    `json:"snd"` // drn_… or dsn_…
	Minute   time.Time `json:"-"`   // the start of the minute, UTC
	Node     string    `json:"node"`
	Boot     [16]byte  `json:"-"`   // random for each start of the node
	Version  uint64    `json:"ver"` // number of the report within Boot
	Requests uint64    `json:"req,omitempty"`
	Lines    uint64    `json:"lines,omitempty"`
	Bytes    uint64    `json:"bytes,omitempty"` // of bodies, uncompressed
	Hits     uint64    `json:"hits,omitempty"`
	Rejected uint64    `json:"rej,omitempty"` // requests that were refused
	LastAt   time.Time `json:"-"`
	Platform string    `json:"plat,omitempty"` // of a drain, as it was detected
	// LastError is the code of the newest refusal of the minute; empty = none. It is from a closed list, and has no text
	// of a client.
	LastError string `json:"err,omitempty"`
}

// countsJSON is the encoding of a Counts.
type countsJSON struct {
	V    int    `json:"v"`
	Type string `json:"t"`
	Counts
	Minute int64  `json:"min"` // Unix seconds
	Boot   []byte `json:"boot"`
	LastAt int64  `json:"last"` // Unix milliseconds
}

// ErrNotCounts means that a record of the topic findings is valid, but no Counts.
var ErrNotCounts = errors.New("the record has no counts")

// Encode returns the value of the record.
func (c *Counts) Encode() []byte {
	x := *c
	x.Platform, x.LastError = CleanLine(c.Platform, maxName), CleanLine(c.LastError, maxName)
	b, err := json.Marshal(countsJSON{version, countsType, x, c.Minute.Unix(), c.Boot[:], c.LastAt.UnixMilli()})
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
	w.Counts.Minute, w.Counts.LastAt = time.Unix(w.Minute, 0).UTC(), time.UnixMilli(w.LastAt).UTC()
	w.Counts.Boot = [16]byte(w.Boot)
	return &w.Counts, nil
}

// Check returns why no reader can use the value of a record of the topic findings; nil when it can.
func Check(value []byte) error {
	_, err := Decode(value)
	if errors.Is(err, ErrNotHit) {
		_, err = DecodeCounts(value)
	}
	return err
}
