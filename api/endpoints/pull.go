package endpoints

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/web"
)

// defaultPull is how many events a pull asks for.
const defaultPull = 10

// maxAttemptID bounds what may be the id of an attempt.
const maxAttemptID = 64

var consumerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Pulls asks the nodes that have the events of destinations. It is a pull.Router, which documents the methods.
type Pulls interface {
	Pull(ctx context.Context, partitions []int32, r pull.Request) ([]pull.Event, error)
	Acknowledge(ctx context.Context, r pull.Request) ([]pull.State, error)
	Consumers(ctx context.Context, partitions []int32, destination string) ([]pull.Consumer, error)
}

// pulls serves destinations whose events are fetched.
type pulls struct{ *area }

// destination returns the destination in the path, and the partitions that may have its events.
func (a *pulls) destination(r *http.Request, key *config.Key) (*config.Destination, []int32, error) {
	e, name, err := a.DestinationInPath(r, key)
	if err != nil {
		return nil, nil, err
	}
	return e.Destination(name), append([]int32{e.Partition}, e.FormerPartitions...), nil
}

func checkPulled(d *config.Destination) error {
	if d.Pull == nil {
		return web.WrongState("", "the destination is not pulled: its events are sent to it")
	}
	return nil
}

func (a *pulls) pull(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, partitions, err := a.destination(r, key)
	if err != nil {
		return err
	}
	q := frame.NewQuery(r, "")
	request := pull.Request{Destination: d.ID, Consumer: q.Single("consumer")}
	q.Names = []string{"consumer", "max", "wait"}
	q.RefuseUnknownParameters()
	request.Max = numberOf(q, "max", defaultPull, 1, pull.MaxEvents)
	request.Wait = time.Duration(numberOf(q, "wait", 0, 0, int(pull.MaxWait/time.Second))) * time.Second
	if !consumerName.MatchString(request.Consumer) {
		q.Fail("consumer", "is required: the name of the program that pulls, 1 to 64 letters, digits, ., - and _")
	}
	if q.Err != nil {
		return q.Err
	}
	if err := checkPulled(d); err != nil {
		return err
	}
	if r.Method == http.MethodHead { // has no answer to lease events with
		return web.Answer(w, http.StatusOK, wire.Pulled{Data: []wire.PulledEvent{}})
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Draining, cancel)()
	found, err := a.Pulls.Pull(ctx, partitions, request)
	if err != nil && a.Draining.Err() != nil {
		found, err = nil, nil
	}
	if err != nil {
		return errPull(err)
	}
	return web.Answer(w, http.StatusOK, wire.Pulled{Data: frame.ViewsOf(found, pulledView)})
}

func numberOf(q *frame.Query, name string, fallback, lo, hi int) int {
	text := q.Single(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < lo || n > hi {
		q.Fail(name, "must be an integer from %d to %d", lo, hi)
	}
	return n
}

func pulledView(x pull.Event) wire.PulledEvent {
	body, encoding := frame.BodyText(x.Body)
	return wire.PulledEvent{EventID: x.ID.Text(id.Event), AttemptID: x.Attempt.Text(id.Attempt), EndpointID: x.Endpoint,
		Type: frame.OrNull(x.Type), ReceivedAt: web.Time(x.ID.Time()), Attempt: x.Number,
		LeasedUntil: web.Time(x.LeasedUntil), Headers: x.Header, Body: body, BodyEncoding: encoding}
}

// errPull is the answer to a request that was not answered by the node that has the events.
func errPull(err error) error {
	switch {
	case errors.Is(err, pull.ErrBusy):
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "consumer",
			Message: "a pull of this consumer still waits; give each program a name of its own"}
	case errors.Is(err, pull.ErrTooMany):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
			Message: "as many consumers pull as one destination may have (" + strconv.Itoa(pull.MaxConsumers) + ")"}
	case errors.Is(err, pull.ErrUnavailable):
		return web.ServiceUnavailable(err, "the node that has the events of the destination cannot be asked at the "+
			"moment; try again. Several nodes need a common RELAY_REDIS_URL for this")
	}
	return err
}

// acknowledge ends leases. It takes effect when the client leaves, too.
func (a *pulls) acknowledge(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, partitions, err := a.destination(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	var texts []string
	for i, raw := range o.Array("attempt_ids", pull.MaxEvents) {
		text, err := web.DecodeString(raw)
		if err != nil || len(text) > maxAttemptID {
			o.Fail(frame.Indexed("attempt_ids", i), "must be the id of an attempt")
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		o.Fail("attempt_ids", "is required: the attempt_id of 1 to %d events", pull.MaxEvents)
	}
	o.RefuseUnknown()
	if in.Err != nil {
		return in.Err
	}
	if err := checkPulled(d); err != nil {
		return err
	}
	request := pull.Request{Destination: d.ID}
	answer := wire.Acknowledged{Data: make([]wire.Acknowledgement, len(texts))}
	var at []int
	for i, text := range texts {
		answer.Data[i] = wire.Acknowledgement{AttemptID: text, Status: string(pull.Unknown)}
		// An invented id must not ask for the owner of a partition that has no events of the destination, or does not exist.
		if attempt, err := id.Parse(id.Attempt, text); err == nil && slices.Contains(partitions, attempt.Partition()) {
			request.Attempts, at = append(request.Attempts, attempt), append(at, i)
		}
	}
	states, err := a.Pulls.Acknowledge(context.WithoutCancel(r.Context()), request)
	if err != nil {
		return errPull(err)
	}
	lease := time.Duration(d.Pull.LeaseSeconds) * time.Second
	for i, state := range states {
		if state == pull.Unknown && request.Attempts[i].Time().Add(lease).Before(a.Now()) {
			state = pull.Expired
		}
		answer.Data[at[i]].Status = string(state)
	}
	return web.Answer(w, http.StatusOK, answer)
}

func (a *pulls) listConsumers(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, partitions, err := a.destination(r, key)
	if err != nil {
		return err
	}
	var found []pull.Consumer
	if d.Pull != nil {
		found, err = a.Pulls.Consumers(r.Context(), partitions, d.ID)
	}
	if err != nil {
		return errPull(err)
	}
	return web.Answer(w, http.StatusOK, wire.Consumers{Data: frame.ViewsOf(found, func(c pull.Consumer) wire.Consumer {
		return wire.Consumer{Consumer: c.Name, LastPullAt: web.Time(c.LastPull), Pulling: c.Pulling, Leases: c.Leases}
	})})
}
