package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// masked stands for the value of a header that may be a credential.
const masked = "****"

// listDead shows what could not be read or stored, the newest first.
func (n *node) listDead(r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > command.MaxDeadList {
		return nil, web.Invalid("limit", "must be from 1 to %d", command.MaxDeadList)
	}
	body, err := strconv.ParseBool(q.Get("body"))
	if err != nil {
		return nil, web.Invalid("body", "must be true or false")
	}
	if err := checkDeadTopic(q.Get("topic")); err != nil {
		return nil, err
	}
	reader, err := stream.NewReader(n.stream, "dead")
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	graves, err := reader.Graves(r.Context(), q.Get("topic"), limit, command.MaxDeadBody)
	if err != nil {
		return nil, err
	}
	records := make([]command.DeadRecord, len(graves))
	for i, g := range graves {
		records[i] = showDead(g, body)
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

func deadName(g stream.Grave) string { return fmt.Sprintf("%d:%d", g.Partition, g.Offset) }

func showDead(g stream.Grave, body bool) command.DeadRecord {
	d := command.DeadRecord{
		ID: deadName(g), At: g.At, Topic: g.Source.Topic, Partition: g.Source.Index, Offset: g.SourceAt,
		Group: g.Group, Error: g.Error, Size: g.Size, Event: event.RecordID(g.Record),
	}
	if !body {
		return d
	}
	for _, h := range g.Record.Headers {
		value := string(h.Value)
		if name, ok := strings.CutPrefix(h.Key, "h:"); ok && control.CredentialHeader(name) {
			value = masked
		}
		d.Headers = append(d.Headers, [2]string{h.Key, value})
	}
	d.Truncated = g.Size > len(g.Record.Value)
	text := string(g.Record.Value)
	if d.BodyEncoding = "utf8"; !utf8.ValidString(text) {
		d.BodyEncoding, text = "base64", base64.StdEncoding.EncodeToString(g.Record.Value)
	}
	d.Body = &text
	return d
}

// retryDead puts records back where they were read.
func (n *node) retryDead(r *http.Request, tell func(any)) error {
	var c command.RetryDead
	if err := readCommand(r, &c); err != nil {
		return err
	}
	if err := checkDeadTopic(c.Topic); err != nil {
		return err
	}
	partition, offset, named := command.ParseDeadID(c.ID)
	if c.All == (c.ID != "") || !c.All && !named {
		return web.Invalid("id", "must be partition:offset, or all must be true")
	}
	// One after the other: two commands at once must not both find a record that is not marked yet.
	n.retrying.Lock()
	defer n.retrying.Unlock()
	reader, err := stream.NewReader(n.stream, "dead")
	if err != nil {
		return err
	}
	defer reader.Close()
	done, refused := 0, 0
	again := func(g stream.Grave) error {
		err := n.retryGrave(r.Context(), g)
		refusal, ok := errors.AsType[refusedError](err)
		switch {
		case ok:
			refused++
			tell(command.RetriedDead{ID: deadName(g), Refused: refusal.Error()})
			return nil
		case err != nil:
			return err
		}
		done++
		tell(command.RetriedDead{ID: deadName(g)})
		return nil
	}
	if c.All {
		err = reader.EachGrave(r.Context(), c.Topic, again)
	} else {
		var g stream.Grave
		if g, err = reader.Grave(r.Context(), partition, offset); err == nil {
			err = again(g)
		}
	}
	switch {
	case errors.Is(err, stream.ErrNoGrave), errors.Is(err, stream.ErrRetried):
		return web.State("id", "%v; relay dead list shows what is buried", err)
	case err != nil:
		return err
	case refused > 0:
		return web.State("", "%d put back, %d refused: they stay where they are", done, refused)
	}
	return nil
}

// refusedError says why a record is not done again: it would be buried again.
type refusedError struct{ error }

// retryGrave puts one record back and then marks it. Between the two a crash leaves it unmarked: it may be
// done twice, never lost.
func (n *node) retryGrave(ctx context.Context, g stream.Grave) error {
	again := g.Again()
	switch topic := g.Source.Topic; {
	case topic == stream.Events:
		e, err := event.Decode(again)
		if err != nil {
			return refusedError{err}
		}
		again.Timestamp = e.ReceivedAt() // as it was accepted: the topic keeps the time of the id
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
	case topic == stream.Commands || stream.IsTier(topic):
		if _, err := event.DecodeWork(again); err != nil {
			return refusedError{err}
		}
	default:
		return refusedError{fmt.Errorf("records of topic %q cannot be retried", topic)}
	}
	err := n.producer.ProduceAlone(ctx, g.Source.Topic, g.Source.Index, again)
	if stream.Refused(err) {
		return refusedError{err}
	}
	if err != nil {
		return err
	}
	return n.producer.ProduceSync(ctx, stream.Dead, g.Partition, g.Mark())
}
