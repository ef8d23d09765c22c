package stream

import (
	"slices"
	"strconv"
	"strings"
)

// Names of the headers that a record of the topic dead has in front of the original ones.
const (
	DeadTopic     = "relay-dead-topic" // without the prefix
	DeadPartition = "relay-dead-partition"
	DeadOffset    = "relay-dead-offset"
	DeadGroup     = "relay-dead-group" // who could not read it
	DeadError     = "relay-dead-error"
)

// DeadHeaders is how many of its own a record of the topic dead has in front of the original ones.
const DeadHeaders = 5

// maxDeadError bounds the error text, in bytes: the record must fit beside a body of the largest size.
const maxDeadError = 500

// DeadRecord copies r, which the group could not process, for the topic dead: key, value and headers
// as they were, and where it came from and why. It belongs into the partition of the same number.
func (c Config) DeadRecord(r *Record, group string, cause error) *Record {
	text := cause.Error()
	headers := []Header{
		{Key: DeadTopic, Value: []byte(strings.TrimPrefix(r.Topic, c.Prefix))},
		{Key: DeadPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: DeadOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
		{Key: DeadGroup, Value: []byte(group)},
		{Key: DeadError, Value: []byte(strings.ToValidUTF8(text[:min(len(text), maxDeadError)], ""))},
	}
	return &Record{Key: r.Key, Value: r.Value, Headers: slices.Concat(headers, r.Headers)}
}
