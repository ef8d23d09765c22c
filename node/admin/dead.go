package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// DeadRecord is a dead letter, a record that could not be decoded or stored, as commands print it.
type DeadRecord struct {
	ID        string    `json:"id"`        // partition:offset in the topic dead
	At        time.Time `json:"at"`        // when it was written there
	Topic     string    `json:"topic"`     // where it was read
	Partition int32     `json:"partition"` // of Topic
	Offset    int64     `json:"offset"`    // in Partition
	Group     string    `json:"group"`     // consumer group that could not process it
	Error     string    `json:"error"`
	Size      int       `json:"size"` // of its value, in bytes
	Event     string    `json:"event_id,omitempty"`

	// Only with --body.
	Headers      [][2]string `json:"headers,omitempty"` // of the record; credentials are masked
	Body         *string     `json:"body,omitempty"`    // at most MaxDeadBody
	BodyEncoding string      `json:"body_encoding,omitempty"`
	Truncated    bool        `json:"body_truncated,omitempty"`
}

// RetryDead asks for dead letters to be processed again: one, all of a topic, or all.
type RetryDead struct {
	ID    string `json:"id,omitempty"`
	All   bool   `json:"all,omitempty"`
	Topic string `json:"topic,omitempty"`
}

// RetriedDead is the result of RetryDead for one dead letter.
type RetriedDead struct {
	ID      string `json:"id"`
	Refused string `json:"refused,omitempty"` // why it stays a dead letter
}

// Bounds of dead list.
const (
	MaxDeadList = 1000
	MaxDeadBody = 16 << 10 // bytes of each value
)

var deadID = regexp.MustCompile(`^([0-9]{1,9}):([0-9]{1,18})$`)

// ParseDeadID reads partition:offset.
func ParseDeadID(id string) (partition int32, offset int64, ok bool) {
	m := deadID.FindStringSubmatch(id)
	if m == nil {
		return 0, 0, false
	}
	p, _ := strconv.ParseInt(m[1], 10, 32) // the expression allows digits only, few enough
	offset, _ = strconv.ParseInt(m[2], 10, 64)
	return int32(p), offset, true
}

// DeadLetters reads the topic dead; *stream.Reader does.
type DeadLetters interface {
	ListDeadLetters(ctx context.Context, topic string, limit, valueBytes int) ([]stream.DeadLetter, error)
	ReadDeadLetter(ctx context.Context, partition int32, offset int64) (stream.DeadLetter, error)
	EachDeadLetter(ctx context.Context, topic string, do func(stream.DeadLetter) error) error
	Close()
}

// Producer appends records to the log.
type Producer interface {
	ProduceInOwnBatch(ctx context.Context, topic string, partition int32, r *stream.Record) error
	ProduceSync(ctx context.Context, topic string, partition int32, r *stream.Record) error
}

// deadLetters are the handlers of relay dead.
type deadLetters struct {
	*Deps
	retrying sync.Mutex // held by the one command that retries dead letters
}

// masked is printed in place of the value of a header that may be a credential.
const masked = "****"

// list returns dead letters, the newest first.
func (x *deadLetters) list(r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > MaxDeadList {
		return nil, web.Invalid("limit", "must be from 1 to %d", MaxDeadList)
	}
	body, err := strconv.ParseBool(q.Get("body"))
	if err != nil {
		return nil, web.Invalid("body", "must be true or false")
	}
	if err := checkDeadTopic(q.Get("topic")); err != nil {
		return nil, err
	}
	reader, err := x.Dead()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	letters, err := reader.ListDeadLetters(r.Context(), q.Get("topic"), limit, MaxDeadBody)
	if err != nil {
		return nil, err
	}
	records := make([]DeadRecord, len(letters))
	for i, letter := range letters {
		records[i] = showDead(letter, body)
	}
	return records, nil
}

// checkDeadTopic refuses a topic whose records cannot be dead letters.
func checkDeadTopic(topic string) error {
	if topics := stream.ReadTopics(); topic != "" && !slices.Contains(topics, topic) {
		return web.Invalid("topic", "must be one of %s", strings.Join(topics, ", "))
	}
	return nil
}

func deadName(letter stream.DeadLetter) string {
	return fmt.Sprintf("%d:%d", letter.Partition, letter.Offset)
}

func showDead(letter stream.DeadLetter, body bool) DeadRecord {
	d := DeadRecord{
		ID: deadName(letter), At: letter.WrittenAt, Topic: letter.Source.Topic, Partition: letter.Source.Index,
		Offset: letter.SourceOffset, Group: letter.Group, Error: letter.Error, Size: letter.Size,
		Event: event.RecordID(letter.Record),
	}
	if !body {
		return d
	}
	for _, h := range letter.Record.Headers {
		value := string(h.Value)
		if name, ok := strings.CutPrefix(h.Key, "h:"); ok && config.CredentialHeader(name) {
			value = masked
		}
		d.Headers = append(d.Headers, [2]string{h.Key, value})
	}
	d.Truncated = letter.Size > len(letter.Record.Value)
	text := string(letter.Record.Value)
	if d.BodyEncoding = "utf8"; !utf8.ValidString(text) {
		d.BodyEncoding, text = "base64", base64.StdEncoding.EncodeToString(letter.Record.Value)
	}
	d.Body = &text
	return d
}

// retry produces dead letters again to the topic and partition where they were read.
func (x *deadLetters) retry(r *http.Request, report func(any)) error {
	var c RetryDead
	if err := readCommand(r, &c); err != nil {
		return err
	}
	if err := checkDeadTopic(c.Topic); err != nil {
		return err
	}
	partition, offset, named := ParseDeadID(c.ID)
	if c.All == (c.ID != "") || !c.All && !named {
		return web.Invalid("id", "must be partition:offset, or all must be true")
	}
	// One command at a time: two must not both find a dead letter that is not marked as retried yet.
	x.retrying.Lock()
	defer x.retrying.Unlock()
	reader, err := x.Dead()
	if err != nil {
		return err
	}
	defer reader.Close()
	done, refused := 0, 0
	again := func(letter stream.DeadLetter) error {
		err := x.produceAgain(r.Context(), letter)
		refusal, ok := errors.AsType[refusedError](err)
		switch {
		case ok:
			refused++
			report(RetriedDead{ID: deadName(letter), Refused: refusal.Error()})
			return nil
		case err != nil:
			return err
		}
		done++
		report(RetriedDead{ID: deadName(letter)})
		return nil
	}
	if c.All {
		err = reader.EachDeadLetter(r.Context(), c.Topic, again)
	} else {
		var letter stream.DeadLetter
		if letter, err = reader.ReadDeadLetter(r.Context(), partition, offset); err == nil {
			err = again(letter)
		}
	}
	switch {
	case errors.Is(err, stream.ErrNoDeadLetter), errors.Is(err, stream.ErrAlreadyRetried):
		return web.WrongState("id", "%v; relay dead list shows the dead letters", err)
	case err != nil:
		return err
	case refused > 0:
		return web.WrongState("", "%d put back, %d refused: these stay dead letters", done, refused)
	}
	return nil
}

// refusedError says why a record is not produced again: it would become a dead letter again.
type refusedError struct{ error }

// produceAgain produces one record again and then marks the dead letter as retried. A crash between the two leaves it
// unmarked: it may be processed twice, and is never lost.
func (x *deadLetters) produceAgain(ctx context.Context, letter stream.DeadLetter) error {
	again := letter.RetryRecord()
	switch topic := letter.Source.Topic; {
	case topic == stream.Events:
		e, err := event.Decode(again)
		if err != nil {
			return refusedError{err}
		}
		again.Timestamp = e.ReceivedAt() // records of this topic have the time of the event's id
	case topic == stream.Outcomes:
		if _, err := event.DecodeOutcome(again); err != nil {
			return refusedError{err}
		}
	case topic == stream.Receipts:
		if _, err := event.DecodeReceipt(again); err != nil {
			return refusedError{err}
		}
	case topic == stream.AuditLog:
		if _, err := audit.Decode(again); err != nil {
			return refusedError{err}
		}
	case topic == stream.Findings:
		if err := finding.Check(again.Value); err != nil {
			return refusedError{err}
		}
	case topic == stream.Commands || stream.IsTier(topic):
		if _, err := event.DecodeWork(again); err != nil {
			return refusedError{err}
		}
	default:
		return refusedError{fmt.Errorf("records of topic %q cannot be retried", topic)}
	}
	err := x.Producer.ProduceInOwnBatch(ctx, letter.Source.Topic, letter.Source.Index, again)
	if stream.RejectedByBroker(err) {
		return refusedError{err}
	}
	if err != nil {
		return err
	}
	return x.Producer.ProduceSync(ctx, stream.Dead, letter.Partition, letter.RetriedMarker())
}
