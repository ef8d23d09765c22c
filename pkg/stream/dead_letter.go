package stream

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of headers in the topic dead. A dead letter has the first five, before the headers of the original record.
const (
	HeaderDead          = "relay-dead-"      // begins all of them
	HeaderDeadTopic     = "relay-dead-topic" // without the prefix
	HeaderDeadPartition = "relay-dead-partition"
	HeaderDeadOffset    = "relay-dead-offset"
	HeaderDeadGroup     = "relay-dead-group" // the group that could not process it
	HeaderDeadError     = "relay-dead-error"
	// HeaderDeadRetried is the first header of a marker in the topic dead: the dead letter of the same partition at this
	// offset was retried.
	HeaderDeadRetried = "relay-dead-retried"
)

// DeadHeaderCount is how many headers a dead letter has before those of the original record.
const DeadHeaderCount = 5

// HeaderOnlyGroup is the header of a retried record. It names the one group that processes the record again; the other
// groups processed the original and skip it.
const HeaderOnlyGroup = "relay-only-group"

// IsForOneGroup reports whether a retry of dead letters has put a record back for one group. The other groups have
// processed the original.
func IsForOneGroup(r *Record) bool {
	return slices.ContainsFunc(r.Headers, func(h Header) bool { return h.Key == HeaderOnlyGroup })
}

// maxDeadErrorBytes bounds the error text, so that the dead letter of a record with the largest body still fits into
// MaxMessageBytes.
const maxDeadErrorBytes = 500

// DeadLetterRecord returns the dead letter of r, which the group could not process: the original key, value and
// headers, and headers that say where r was read and why it failed. The caller produces it to the partition of the
// topic dead that has the number of r's partition.
func (c Config) DeadLetterRecord(r *Record, group string, cause error) *Record {
	text := cause.Error()
	headers := []Header{
		{Key: HeaderDeadTopic, Value: []byte(strings.TrimPrefix(r.Topic, c.Prefix))},
		{Key: HeaderDeadPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: HeaderDeadOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
		{Key: HeaderDeadGroup, Value: []byte(group)},
		{Key: HeaderDeadError, Value: []byte(strings.ToValidUTF8(text[:min(len(text), maxDeadErrorBytes)], ""))},
	}
	return &Record{Key: r.Key, Value: r.Value, Headers: slices.Concat(headers, r.Headers)}
}

// DeadLetter is a record of the topic dead: a record that a group could not decode or store.
type DeadLetter struct {
	Partition    int32     // of the topic dead
	Offset       int64     // in the topic dead
	WrittenAt    time.Time // to the topic dead
	Source       Partition // of the original record
	SourceOffset int64     // of the original record
	Group        string    // the group that could not process it
	Error        string
	Size         int     // of the value, in bytes
	Record       *Record // the original key, value and headers
}

// errNotDeadLetter means that a record of the topic dead lacks the headers of DeadLetterRecord.
var errNotDeadLetter = errors.New("not a dead letter")

// parseDeadLetter is the reverse of DeadLetterRecord.
func parseDeadLetter(r *Record) (DeadLetter, error) {
	d := DeadLetter{Partition: r.Partition, Offset: r.Offset, WrittenAt: r.Timestamp}
	if len(r.Headers) < DeadHeaderCount || r.Headers[0].Key != HeaderDeadTopic {
		return d, errNotDeadLetter
	}
	var err error
	number := func(v []byte, bits int) int64 {
		n, parseErr := strconv.ParseInt(string(v), 10, bits)
		err = errors.Join(err, parseErr)
		return n
	}
	for _, h := range r.Headers[:DeadHeaderCount] { // the following headers are the original ones
		switch h.Key {
		case HeaderDeadTopic:
			d.Source.Topic = string(h.Value)
		case HeaderDeadPartition:
			d.Source.Index = int32(number(h.Value, 32))
		case HeaderDeadOffset:
			d.SourceOffset = number(h.Value, 64)
		case HeaderDeadGroup:
			d.Group = string(h.Value)
		case HeaderDeadError:
			d.Error = string(h.Value)
		}
	}
	if err != nil {
		return d, errNotDeadLetter
	}
	d.Size = len(r.Value)
	d.Record = &Record{Key: r.Key, Value: r.Value, Headers: r.Headers[DeadHeaderCount:]}
	return d, nil
}

// detach copies the record, with at most valueBytes of its value, so that it no longer keeps the fetch response in
// memory.
func (d *DeadLetter) detach(valueBytes int) {
	r := &Record{Key: slices.Clone(d.Record.Key),
		Value: slices.Clone(d.Record.Value[:min(len(d.Record.Value), valueBytes)])}
	for _, h := range d.Record.Headers {
		r.Headers = append(r.Headers, Header{Key: strings.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	d.Record = r
}

// RetryRecord returns the original record, addressed to the group that could not process it. It has no timestamp.
func (d DeadLetter) RetryRecord() *Record {
	headers := slices.DeleteFunc(slices.Clone(d.Record.Headers), func(h Header) bool { return h.Key == HeaderOnlyGroup })
	headers = append(headers, Header{Key: HeaderOnlyGroup, Value: []byte(d.Group)})
	return &Record{Key: d.Record.Key, Value: d.Record.Value, Headers: headers}
}

// RetriedMarker returns the record that marks the dead letter as retried. It goes into the same partition of the topic
// dead.
func (d DeadLetter) RetriedMarker() *Record {
	return &Record{Headers: []Header{{Key: HeaderDeadRetried, Value: strconv.AppendInt(nil, d.Offset, 10)}}}
}

// retriedOffset returns the offset of the dead letter that a marker names; false for any other record.
func retriedOffset(r *Record) (int64, bool) {
	if len(r.Headers) == 0 || r.Headers[0].Key != HeaderDeadRetried {
		return 0, false
	}
	offset, err := strconv.ParseInt(string(r.Headers[0].Value), 10, 64)
	return offset, err == nil
}
