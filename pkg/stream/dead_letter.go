package stream

import (
	"cmp"
	"context"
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

// deadWindow is how many records of a partition of the topic dead are read at a time, from its end backwards.
const deadWindow = 1000

// maxExactCount bounds the records that CountDeadLetters reads. If the topic has more, it
// counts all records: retried dead letters and their markers too.
const maxExactCount = 100_000

// ListDeadLetters returns the dead letters that were not retried, the newest first, at most limit. If topic (without
// the prefix) is not empty, it returns only those from that topic. Of each value it returns at most valueBytes; Size
// has the full length.
func (r *Reader) ListDeadLetters(ctx context.Context, topic string, limit, valueBytes int) ([]DeadLetter, error) {
	var all []DeadLetter
	err := r.eachDeadPartition(ctx, func(span Range) error {
		found, err := r.newestDeadLetters(ctx, span, topic, limit, valueBytes)
		all = append(all, found...)
		return err
	})
	slices.SortStableFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(b.WrittenAt.Compare(a.WrittenAt), cmp.Compare(b.Offset, a.Offset))
	})
	return all[:min(len(all), limit)], err
}

// newestDeadLetters reads one partition backwards from its end, because the marker of a retried dead letter follows it.
func (r *Reader) newestDeadLetters(ctx context.Context, span Range, topic string, limit, valueBytes int) (
	[]DeadLetter, error) {
	retried := make(map[int64]bool)
	var found []DeadLetter
	for span.To > span.From && len(found) < limit {
		from := max(span.From, span.To-deadWindow)
		var window []DeadLetter
		err := r.readDeadRange(ctx, Range{span.Partition, from, span.To}, retried, func(d DeadLetter) error {
			if topic == "" || d.Source.Topic == topic {
				d.detach(valueBytes)
				window = append(window, d)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, d := range slices.Backward(window) {
			if !retried[d.Offset] && len(found) < limit {
				found = append(found, d)
			}
		}
		span.To = from
	}
	return found, nil
}

// ErrNoDeadLetter means that there is no dead letter at the partition and offset.
var ErrNoDeadLetter = errors.New("there is no dead letter")

// ErrAlreadyRetried means that the dead letter was retried before.
var ErrAlreadyRetried = errors.New("it was retried already")

// ReadDeadLetter returns the dead letter at an offset of a partition of the topic dead, with its whole value. It
// returns ErrNoDeadLetter if there is none and ErrAlreadyRetried if it was retried.
func (r *Reader) ReadDeadLetter(ctx context.Context, partition int32, offset int64) (DeadLetter, error) {
	var found *DeadLetter
	retried := make(map[int64]bool)
	err := r.eachDeadPartition(ctx, func(span Range) error {
		if span.Index != partition || offset < span.From || offset >= span.To {
			return nil
		}
		span.From = offset
		return r.readDeadRange(ctx, span, retried, func(d DeadLetter) error {
			if d.Offset == offset {
				d.detach(d.Size)
				found = &d
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return DeadLetter{}, err
	case found == nil:
		return DeadLetter{}, ErrNoDeadLetter
	case retried[offset]:
		return DeadLetter{}, ErrAlreadyRetried
	}
	return *found, nil
}

// EachDeadLetter calls do for every dead letter that was not retried, with its whole value, in the order of offsets
// within a partition. If topic is not empty, it skips dead letters from other topics.
func (r *Reader) EachDeadLetter(ctx context.Context, topic string, do func(DeadLetter) error) error {
	return r.eachDeadPartition(ctx, func(span Range) error {
		retried := make(map[int64]bool)
		if err := r.readDeadRange(ctx, span, retried, func(DeadLetter) error { return nil }); err != nil {
			return err
		}
		return r.readDeadRange(ctx, span, nil, func(d DeadLetter) error {
			if retried[d.Offset] || topic != "" && d.Source.Topic != topic {
				return nil
			}
			d.detach(d.Size)
			return do(d)
		})
	})
}

// CountDeadLetters returns how many dead letters were not retried. If the topic has more than 100,000 records, it
// counts the retried ones and the markers too.
func (r *Reader) CountDeadLetters(ctx context.Context) (n int64, err error) {
	var records, count int64
	var spans []Range
	err = r.eachDeadPartition(ctx, func(span Range) error {
		records += span.To - span.From
		spans = append(spans, span)
		return nil
	})
	if err != nil || records > maxExactCount {
		return records, err
	}
	for _, span := range spans {
		retried := make(map[int64]bool)
		var offsets []int64
		err := r.readDeadRange(ctx, span, retried, func(d DeadLetter) error {
			offsets = append(offsets, d.Offset)
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, offset := range offsets {
			if !retried[offset] {
				count++
			}
		}
	}
	return count, nil
}

// eachDeadPartition calls do with the range of offsets that each partition of the topic dead has now.
func (r *Reader) eachDeadPartition(ctx context.Context, do func(Range) error) error {
	starts, err := r.Starts(ctx, Dead)
	if err != nil {
		return err
	}
	ends, err := r.Ends(ctx, Dead)
	if err != nil {
		return err
	}
	spans := make([]Range, 0, len(ends))
	for p, end := range ends {
		spans = append(spans, Range{p, starts[p], end})
	}
	slices.SortFunc(spans, func(a, b Range) int { return cmp.Compare(a.Index, b.Index) })
	for _, span := range spans {
		if err := do(span); err != nil {
			return err
		}
	}
	return nil
}

// readDeadRange reads a range of one partition. It adds the offsets that markers name to retried, unless that is nil,
// and calls do for the dead letters. They are parts of the fetch response until they are detached.
func (r *Reader) readDeadRange(
	ctx context.Context, span Range, retried map[int64]bool, do func(DeadLetter) error) error {
	return r.ReadRanges(ctx, []Range{span}, func(_ Partition, records []*Record) error {
		for _, rec := range records {
			if offset, ok := retriedOffset(rec); ok {
				if retried != nil {
					retried[offset] = true
				}
				continue
			}
			d, err := parseDeadLetter(rec)
			if err != nil {
				continue // not written by this service
			}
			if err := do(d); err != nil {
				return err
			}
		}
		return nil
	})
}
