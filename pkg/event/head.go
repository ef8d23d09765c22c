package event

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Head is what must be known of an event record to say which deliveries it asks for. Reading it costs a
// fraction of Decode, and one allocation for the address of the sender; it refuses the same records.
type Head struct {
	ID        id.ID
	Verdict   Verdict
	Duplicate bool
	dests     []byte // of the record
}

// Delivers reports whether the event asks for deliveries at all. What was rejected, is a duplicate or has
// no destination ends with its own record, which says so.
func (h *Head) Delivers() bool {
	return h.Verdict != VerdictRejected && !h.Duplicate && len(h.dests) > 0
}

// EachDest calls f with each destination; the bytes belong to the record.
func (h *Head) EachDest(f func(dest []byte)) {
	for dest := range bytes.SplitSeq(h.dests, []byte(",")) {
		f(dest)
	}
}

// DecodeHead reads a record of the topic events, or the event in a work item.
func DecodeHead(r *stream.Record) (Head, error) {
	var h Head
	versioned := false
	for i := range r.Headers {
		x := &r.Headers[i]
		var err error
		switch x.Key {
		case hVersion:
			versioned = string(x.Value) == version
		case hID:
			h.ID, err = id.Parse(id.Event, string(x.Value))
		case hRemoteIP:
			_, err = netip.ParseAddr(string(x.Value))
		case hVerdict:
			h.Verdict = ""
			if string(x.Value) == string(VerdictRejected) {
				h.Verdict = VerdictRejected
			}
		case hDuplicateOf:
			h.Duplicate = len(x.Value) > 0
		case hDests:
			h.dests = x.Value
		}
		if err != nil {
			return Head{}, fmt.Errorf("decode event header %s: %w", x.Key, err)
		}
	}
	if !versioned || h.ID.IsZero() || len(r.Key) == 0 {
		return Head{}, errors.New("decode event: version, id or key is missing")
	}
	return h, nil
}

// WorkHead names a delivery and the run that it belongs to, empty for the automatic chain, and says when the
// record that was read is due.
type WorkHead struct {
	Event     id.ID
	Dest, Run string
	Due       time.Time
}

// DecodeWorkHead reads which chain a record of commands or retry.* continues. It refuses what DecodeWork
// refuses.
func DecodeWorkHead(r *stream.Record) (WorkHead, error) {
	h, err := DecodeHead(r)
	if err != nil {
		return WorkHead{}, err
	}
	x, err := decodeWorkHeader(r)
	if err != nil {
		return WorkHead{}, err
	}
	return WorkHead{Event: h.ID, Dest: x.Dest, Run: x.Run, Due: fromMilli(x.Due)}, nil
}

// OutcomeHead is what an outcome says about a delivery, without the details of the request. Reading it allocates
// nothing; Dest, Run and Reason belong to the record.
type OutcomeHead struct {
	Event             id.ID
	Dest, Run, Reason []byte
	Status            Status
	NextAt, At        time.Time
	Attempt           id.ID // of the request; zero when none was made
	OK                bool  // the request succeeded
	Trigger           Trigger
}

// DecodeOutcomeHead reads a record of the topic outcomes.
func DecodeOutcomeHead(r *stream.Record) (OutcomeHead, error) {
	var w OutcomeHead
	err := eachField(r.Value, func(num protowire.Number, b []byte, n int64) error {
		switch num {
		case oEvent:
			return readID(&w.Event, b)
		case oDest:
			w.Dest = b
		case oRun:
			w.Run = b
		case oStatus:
			w.Status = statusOf(b)
		case oReason:
			w.Reason = b
		case oNextAt:
			w.NextAt = fromMilli(n)
		case oAt:
			w.At = fromMilli(n)
		case oAttempt:
			return w.readAttempt(b)
		}
		return nil
	})
	if err == nil && (w.Event.IsZero() || len(w.Dest) == 0 || w.Status == "" || len(r.Key) == 0) {
		err = errors.New("event, endpoint, destination or status is missing")
	}
	if err != nil {
		return OutcomeHead{}, fmt.Errorf("decode outcome: %w", err)
	}
	return w, nil
}

// statusOf is Status(b) without the allocation.
func statusOf(b []byte) Status { return intern(b, Delivered, Retrying, Failed, Skipped, Pending, Held) }

// triggerOf is Trigger(b) without the allocation, for what is common.
func triggerOf(b []byte) Trigger { return intern(b, TriggerInitial, TriggerRetry) }

// known is the word that b spells; only one that is none of words takes memory.
func intern[T ~string](b []byte, words ...T) T {
	for _, w := range words {
		if string(b) == string(w) {
			return w
		}
	}
	return T(b)
}

// readAttempt reads which request it was and how it went.
func (w *OutcomeHead) readAttempt(msg []byte) error {
	return eachField(msg, func(num protowire.Number, b []byte, n int64) error {
		switch num {
		case aID:
			return readID(&w.Attempt, b)
		case aOK:
			w.OK = n != 0
		case aTrigger:
			w.Trigger = triggerOf(b)
		}
		return nil
	})
}

// Version is that of the word, read at an offset of the topic outcomes.
func (w *OutcomeHead) Version(offset int64) (Version, error) {
	return versionOf(string(w.Run), w.Status, w.At, offset)
}
