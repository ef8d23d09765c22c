// Package pull delivers events to consumers that fetch them. An attempt begins when a waiting pull takes the event, is
// its lease, and succeeds when the consumer acknowledges it.
//
// Nothing waits here but pulls: what nobody asks for stays in the lane of its destination. So a node that stops waits
// for no consumer, and a pause, a filter or an expiry counts until the event is handed over.
package pull

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/pull"
)

const (
	// gatherFirst is how long a pull waits for its first event at least: lanes need a moment to hand over what they have.
	gatherFirst = 100 * time.Millisecond
	// gatherMore is how long it waits for more after its first event.
	gatherMore = 10 * time.Millisecond
	// remembered is how long a consumer is shown after its last pull.
	remembered = time.Hour
	// maxAcknowledged bounds the attempts whose acknowledgement may be repeated, some 5 MB.
	maxAcknowledged = 50_000
)

// Kind hands events to consumers.
type Kind struct {
	Deps

	mu           sync.Mutex // guards the fields below, and what they point to; taken after that of the lanes
	queues       map[string]*queue
	acknowledged map[id.ID]struct{}
	order        []id.ID // of acknowledged: a ring once it is full
	next         int
}

// Deps are the dependencies of a Kind.
type Deps struct {
	Keyring *seal.Keyring
	Now     func() time.Time
	Version string
}

// New makes a Kind.
func New(deps Deps) *Kind {
	return &Kind{Deps: deps, queues: make(map[string]*queue), acknowledged: make(map[id.ID]struct{})}
}

// Owner answers the pulls of consumers on the node that owns their destinations.
type Owner struct {
	*Kind
	wake func(dest string, n int)
}

// NewOwner makes an Owner. wake is called when n events of a destination are wanted.
func NewOwner(k *Kind, wake func(dest string, n int)) *Owner { return &Owner{k, wake} }

// queue is the pulls and leases of one destination.
type queue struct {
	pulls     []*waiting // those with room, in the order in which they came
	leases    map[id.ID]*lease
	consumers map[string]*pull.Consumer
}

// waiting is a pull that is not answered yet.
type waiting struct {
	consumer string
	max      int
	bytes    int
	events   []pull.Event
	first    chan struct{} // closed when it has an event
	full     chan struct{} // closed when it has no room
}

// lease is an attempt that a consumer has.
type lease struct {
	consumer string
	ended    chan bool     // gets whether it was acknowledged, or ends for another reason than its time; capacity 1
	recorded chan struct{} // closed when the acknowledgement is durable; nil: there is none
}

// target is an opened destination.
type target struct {
	destination.Opened
	kind  *Kind
	lease time.Duration
	names destination.Names
}

// Open decrypts the settings.
func (k *Kind) Open(e *config.Endpoint, d *config.Destination) (destination.Target, error) {
	opened, err := destination.Open(k.Keyring, e, d)
	return &target{Opened: opened, kind: k, lease: time.Duration(d.Pull.LeaseSeconds) * time.Second}, err
}

// Send hands the event to a pull that waits and returns when its lease has ended.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	header := m.Header(&t.Opened, "EventRelay/"+t.kind.Version)
	l := t.kind.handOver(t.eventOf(m, header), m.Work.Dest)
	if l == nil {
		return destination.Result{NotTaken: true}
	}
	attempt := m.Attempt
	attempt.URL, attempt.Method = "pull://"+l.consumer, http.MethodGet
	attempt.RequestHeader = t.names.Recorded(header, t.Header)
	timer := time.NewTimer(t.lease)
	defer timer.Stop()
	acknowledged, ended := false, false
	select {
	case acknowledged = <-l.ended:
		ended = true
	case <-timer.C:
	case <-ctx.Done():
	}
	if !ended && !t.kind.end(m.Work.Dest, attempt.ID) { // it was acknowledged or released at this moment
		acknowledged, ended = <-l.ended, true
	}
	attempt.Duration = t.kind.Now().Sub(attempt.StartedAt)
	switch {
	case acknowledged:
		return destination.Result{Lane: lane.Succeeded,
			Recorded: func() { t.kind.record(m.Work.Dest, attempt.ID, l) }}
	case ended:
		return destination.Result{NotTaken: true}
	}
	attempt.ErrorMessage = "the consumer " + l.consumer + " did not acknowledge it within " + t.lease.String()
	return destination.Result{Lane: lane.Rejected, Classification: destination.Classification{
		Class: destination.Retryable, Code: event.CodeNotAcknowledged}}
}

func (t *target) eventOf(m destination.Message, header http.Header) pull.Event {
	ev := m.Work.Event
	x := pull.Event{ID: ev.ID, Attempt: m.Attempt.ID, Number: m.Work.Attempt, Endpoint: ev.Endpoint, Type: ev.Type,
		Header: make(map[string]string, len(header)), Body: m.Content.Body,
		LeasedUntil: m.Attempt.StartedAt.Add(t.lease)}
	for name, values := range header {
		x.Header[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return x
}

// sizeOf is about what an event adds to an answer.
func sizeOf(x *pull.Event) int {
	size := len(x.Body) + 256
	for name, value := range x.Header {
		size += len(name) + len(value)
	}
	return size
}

// handOver gives the event to the first pull with room, or returns nil.
func (k *Kind) handOver(x pull.Event, dest string) *lease {
	size := sizeOf(&x)
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[dest]
	for q != nil && len(q.pulls) > 0 {
		p := q.pulls[0]
		fits := len(p.events) == 0 || p.bytes+size <= pull.MaxBytes
		if fits {
			if p.events = append(p.events, x); len(p.events) == 1 {
				close(p.first)
			}
			p.bytes += size
		}
		if !fits || len(p.events) == p.max {
			q.pulls = q.pulls[1:]
			close(p.full)
		}
		if fits {
			l := &lease{consumer: p.consumer, ended: make(chan bool, 1)}
			q.leases[x.Attempt] = l
			return l
		}
	}
	return nil
}

// end ends a lease whose time is over. It returns false if the lease has ended in another way.
func (k *Kind) end(dest string, attempt id.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[dest]
	if q == nil || q.leases[attempt] == nil || q.leases[attempt].recorded != nil {
		return false
	}
	delete(q.leases, attempt)
	return true
}

// record is called when the acknowledgement is durable.
func (k *Kind) record(dest string, attempt id.ID, l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.queues[dest].leases, attempt)
	if len(k.order) < maxAcknowledged {
		k.order = append(k.order, attempt)
	} else {
		delete(k.acknowledged, k.order[k.next])
		k.order[k.next] = attempt
		k.next = (k.next + 1) % maxAcknowledged
	}
	k.acknowledged[attempt] = struct{}{}
	close(l.recorded)
}

// Waits reports whether a pull of the destination has room.
func (k *Kind) Waits(dest string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[dest]
	return q != nil && len(q.pulls) > 0
}

// Pull returns events of a destination when it has some, at most as many as asked for, or none when the wait is over.
func (k *Owner) Pull(ctx context.Context, r pull.Request) ([]pull.Event, error) {
	p := &waiting{consumer: r.Consumer, max: r.Max, first: make(chan struct{}), full: make(chan struct{})}
	if err := k.begin(r.Destination, p); err != nil {
		return nil, err
	}
	k.wake(r.Destination, r.Max)
	wait := time.NewTimer(max(r.Wait, gatherFirst))
	defer wait.Stop()
	select {
	case <-p.first:
		wait.Reset(gatherMore)
		select {
		case <-p.full:
		case <-wait.C:
		case <-ctx.Done():
		}
	case <-wait.C:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[r.Destination]
	q.pulls = slices.DeleteFunc(q.pulls, func(other *waiting) bool { return other == p })
	c := q.consumers[r.Consumer]
	c.Pulling, c.LastPull = false, k.Now()
	if ctx.Err() == nil {
		return p.events, nil
	}
	for _, x := range p.events { // nobody gets them
		q.release(x.Attempt)
	}
	return nil, ctx.Err()
}

// begin adds a pull.
func (k *Kind) begin(dest string, p *waiting) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[dest]
	if q == nil {
		q = &queue{leases: make(map[id.ID]*lease), consumers: make(map[string]*pull.Consumer)}
		k.queues[dest] = q
	}
	c := q.consumers[p.consumer]
	switch {
	case c != nil && c.Pulling:
		return pull.ErrBusy
	case c == nil:
		if len(q.consumers) >= pull.MaxConsumers {
			q.forget(k.Now().Add(-2 * pull.MaxWait))
		}
		if len(q.consumers) >= pull.MaxConsumers {
			return pull.ErrTooMany
		}
		c = &pull.Consumer{Name: p.consumer}
		q.consumers[p.consumer] = c
	}
	c.Pulling, c.LastPull = true, k.Now()
	q.pulls = append(q.pulls, p)
	return nil
}

// release ends a lease as if its event had not been handed over.
func (q *queue) release(attempt id.ID) {
	if l := q.leases[attempt]; l != nil && l.recorded == nil {
		delete(q.leases, attempt)
		l.ended <- false
	}
}

// TakeBack ends leases as if nobody had pulled.
func (k *Kind) TakeBack(r pull.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.queues[r.Destination]; q != nil {
		for _, attempt := range r.Attempts {
			q.release(attempt)
		}
	}
}

// forget removes consumers that have not pulled since a time.
func (q *queue) forget(since time.Time) {
	for name, c := range q.consumers {
		if !c.Pulling && c.LastPull.Before(since) {
			delete(q.consumers, name)
		}
	}
}

// Acknowledge ends leases as delivered and returns when that is recorded.
func (k *Kind) Acknowledge(ctx context.Context, r pull.Request) ([]pull.State, error) {
	states, leases := make([]pull.State, len(r.Attempts)), make([]*lease, len(r.Attempts))
	k.mu.Lock()
	q := k.queues[r.Destination]
	for i, attempt := range r.Attempts {
		_, again := k.acknowledged[attempt]
		if again {
			states[i] = pull.Acknowledged
			continue
		}
		if q != nil {
			leases[i] = q.leases[attempt]
		}
		if l := leases[i]; l != nil && l.recorded == nil {
			l.recorded = make(chan struct{})
			l.ended <- true
		}
	}
	k.mu.Unlock()
	for i, l := range leases {
		switch {
		case states[i] != "":
		case l == nil:
			states[i] = pull.Unknown
		default:
			states[i] = pull.Acknowledged
			select {
			case <-l.recorded:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return states, nil
}

// Consumers returns who has pulled a destination here within the last hour.
func (k *Kind) Consumers(dest string) (all []pull.Consumer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[dest]
	if q == nil {
		return nil
	}
	leases := make(map[string]int)
	for _, l := range q.leases {
		leases[l.consumer]++
	}
	for name, c := range q.consumers {
		x := *c
		x.Leases = leases[name]
		all = append(all, x)
	}
	return all
}

// Release ends the leases of partitions that leave the node: their next owner delivers the events again.
func (k *Kind) Release(has func(partition int32) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range k.queues {
		for attempt := range q.leases {
			if has(attempt.Partition()) {
				q.release(attempt)
			}
		}
	}
}

// Run forgets consumers that do not pull any more, until ctx ends.
func (k *Kind) Run(ctx context.Context) {
	tick := time.NewTicker(remembered / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.sweep()
		}
	}
}

func (k *Kind) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for dest, q := range k.queues {
		if q.forget(k.Now().Add(-remembered)); len(q.consumers)+len(q.leases) == 0 {
			delete(k.queues, dest)
		}
	}
}
