package stream

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that a record of the topic dead has in front of the original ones.
const (
	HeaderDeadTopic     = "relay-dead-topic" // without the prefix
	HeaderDeadPartition = "relay-dead-partition"
	HeaderDeadOffset    = "relay-dead-offset"
	HeaderDeadGroup     = "relay-dead-group" // who could not read it
	HeaderDeadError     = "relay-dead-error"
	// HeaderDeadRetried alone makes a record of dead a mark: the one of the same partition at this offset was done again.
	HeaderDeadRetried = "relay-dead-retried"
)

// DeadHeaderCount is how many of its own a record of the topic dead has in front of the original ones.
const DeadHeaderCount = 5

// HeaderOnlyGroup is the header of a record that was done again for the one group that could not read it: the
// others have had it.
const HeaderOnlyGroup = "relay-only-group"

// maxDeadErrorBytes bounds the error text, in bytes: the record must fit beside a body of the largest size.
const maxDeadErrorBytes = 500

// DeadLetterRecord copies r, which the group could not process, for the topic dead: key, value and headers
// as they were, and where it came from and why. It belongs into the partition of the same number.
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

// Grave is a record of the topic dead.
type DeadLetter struct {
	Partition    int32     // of dead
	Offset       int64     // in dead
	WrittenAt    time.Time // when it was buried
	Source       Partition // where the record was read
	SourceOffset int64     // and at which offset
	Group        string    // who could not read it
	Error        string
	Size         int     // of the value, in bytes
	Record       *Record // key, value and headers as they were
}

// errNotDeadLetter says that a record of dead does not tell where it came from.
var errNotDeadLetter = errors.New("no record that was buried")

// parseDeadLetter is the reverse of DeadLetterRecord.
func parseDeadLetter(r *Record) (DeadLetter, error) {
	g := DeadLetter{Partition: r.Partition, Offset: r.Offset, WrittenAt: r.Timestamp}
	if len(r.Headers) < DeadHeaderCount || r.Headers[0].Key != HeaderDeadTopic {
		return g, errNotDeadLetter
	}
	var err error
	number := func(v []byte, bits int) int64 {
		n, parseErr := strconv.ParseInt(string(v), 10, bits)
		err = errors.Join(err, parseErr)
		return n
	}
	for _, h := range r.Headers[:DeadHeaderCount] { // what follows is the record's own, whatever its name
		switch h.Key {
		case HeaderDeadTopic:
			g.Source.Topic = string(h.Value)
		case HeaderDeadPartition:
			g.Source.Index = int32(number(h.Value, 32))
		case HeaderDeadOffset:
			g.SourceOffset = number(h.Value, 64)
		case HeaderDeadGroup:
			g.Group = string(h.Value)
		case HeaderDeadError:
			g.Error = string(h.Value)
		}
	}
	if err != nil {
		return g, errNotDeadLetter
	}
	g.Size = len(r.Value)
	g.Record = &Record{Key: r.Key, Value: r.Value, Headers: r.Headers[DeadHeaderCount:]}
	return g, nil
}

// detach copies the record out of the fetch response of which it is a part, at most so many bytes of its value.
func (g *DeadLetter) detach(value int) {
	r := &Record{Key: slices.Clone(g.Record.Key), Value: slices.Clone(g.Record.Value[:min(len(g.Record.Value), value)])}
	for _, h := range g.Record.Headers {
		r.Headers = append(r.Headers, Header{Key: strings.Clone(h.Key), Value: slices.Clone(h.Value)})
	}
	g.Record = r
}

// Again is the record as it was, for its topic and the group that could not read it. It has no timestamp.
func (g DeadLetter) RetryRecord() *Record {
	headers := slices.DeleteFunc(slices.Clone(g.Record.Headers), func(h Header) bool { return h.Key == HeaderOnlyGroup })
	headers = append(headers, Header{Key: HeaderOnlyGroup, Value: []byte(g.Group)})
	return &Record{Key: g.Record.Key, Value: g.Record.Value, Headers: headers}
}

// Mark is the record that goes into the partition of the grave once it was done again.
func (g DeadLetter) RetriedMarker() *Record {
	return &Record{Headers: []Header{{Key: HeaderDeadRetried, Value: strconv.AppendInt(nil, g.Offset, 10)}}}
}

// marks is the offset that a record marks as done again; false for any other record.
func retriedOffset(r *Record) (int64, bool) {
	if len(r.Headers) == 0 || r.Headers[0].Key != HeaderDeadRetried {
		return 0, false
	}
	offset, err := strconv.ParseInt(string(r.Headers[0].Value), 10, 64)
	return offset, err == nil
}
