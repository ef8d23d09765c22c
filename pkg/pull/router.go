package pull

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// answerTime is how long another node may take for an answer, beside the time that a pull waits.
	answerTime = 5 * time.Second
	// ownerPause is the pause before the owner of a partition is looked for again: it is about to change.
	ownerPause = 250 * time.Millisecond
	// turn is how long a pull waits for each of several partitions.
	turn = time.Second
	// maxRemote bounds the requests of other nodes that this node answers at once.
	maxRemote = 2048
)

// The functions that a node answers.
const (
	opPull        = "pull"
	opAcknowledge = "acknowledge"
	opConsumers   = "consumers"
	opCancel      = "cancel"    // the client of a pull has left
	opTakeBack    = "take back" // nobody waits for the events of an answer
)

// Bus carries messages between nodes: those that listen to a channel get what is published there.
type Bus interface {
	Publish(ctx context.Context, channel string, message []byte) (listeners int64, err error)
	Listen(ctx context.Context, channels func() []string, changed <-chan struct{}, handle func(string, []byte))
}

// Router passes requests to the nodes that own the partitions. Messages between nodes are encrypted: Redis holds no
// payload that somebody could read there.
type Router struct {
	deps    RouterDeps
	self    string // channel of this node
	changed chan struct{}

	mu      sync.Mutex // guards the fields below
	pending map[string]*question
	running map[string]context.CancelFunc // requests of other nodes
}

// RouterDeps are the dependencies of a Router.
type RouterDeps struct {
	Local Owner                                   // nil: this node owns no partition
	Owned func() []int32                          // partitions of this node
	Bus   Bus                                     // nil: there is no other node, or none can be asked
	Key   func(context.Context) ([32]byte, error) // the same on all nodes
}

// question is a request to other nodes that waits for its answer, or for those of all who have heard it.
type question struct {
	answers chan message
	all     bool
}

// maxOwners is how many nodes may take themselves for the owner of a partition at once: the last one has just got it,
// and others do not know yet that they have lost it.
const maxOwners = 8

// NewRouter makes a router.
func NewRouter(deps RouterDeps) *Router {
	return &Router{deps: deps, self: "pull:node:" + rand.Text(), changed: make(chan struct{}, 1),
		pending: make(map[string]*question), running: make(map[string]context.CancelFunc)}
}

// message is a request to another node, or its answer.
type message struct {
	Op, Number string
	From       string `json:",omitempty"` // channel for the answer
	Request    Request
	Answer     Answer
	Error      string `json:",omitempty"`
}

// sentErrors are those that an answer may name.
var sentErrors = []error{ErrBusy, ErrTooMany}

func channelOf(partition int32) string { return "pull:" + strconv.Itoa(int(partition)) }

// Pull asks the owners of the partitions that may have events of the destination, in turn, until there are some.
func (r *Router) Pull(ctx context.Context, partitions []int32, request Request) ([]Event, error) {
	end := time.Now().Add(request.Wait)
	for {
		for _, partition := range partitions {
			one := request
			if one.Wait = max(time.Until(end), 0); len(partitions) > 1 {
				one.Wait = min(one.Wait, turn)
			}
			answer, err := r.call(ctx, partition, message{Op: opPull, Request: one})
			if err != nil || len(answer.Events) > 0 {
				return answer.Events, err
			}
		}
		if !time.Now().Before(end) {
			return nil, nil
		}
	}
}

// Acknowledge asks the owner of each attempt. Attempts whose owner cannot be asked are ErrUnavailable for all: the
// acknowledgement may be repeated. A lease is unknown if all say so who take themselves for the owner: while a
// partition goes to another node, the earlier one may have recorded what the new one has not seen.
func (r *Router) Acknowledge(ctx context.Context, request Request) ([]State, error) {
	states := make([]State, len(request.Attempts))
	places := make(map[int32][]int)
	for i, attempt := range request.Attempts {
		places[attempt.Partition()] = append(places[attempt.Partition()], i)
	}
	for partition, at := range places {
		one := request
		one.Attempts = nil
		for _, i := range at {
			one.Attempts = append(one.Attempts, request.Attempts[i])
		}
		answer, err := r.call(ctx, partition, message{Op: opAcknowledge, Request: one})
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			states[i] = answer.States[k]
		}
	}
	return states, nil
}

// Consumers returns who pulls a destination, newest pull first.
func (r *Router) Consumers(ctx context.Context, partitions []int32, destination string) ([]Consumer, error) {
	byName := make(map[string]Consumer)
	for _, partition := range partitions {
		answer, err := r.call(ctx, partition, message{Op: opConsumers, Request: Request{Destination: destination}})
		if err != nil {
			return nil, err
		}
		for _, c := range answer.Consumers {
			if before, ok := byName[c.Name]; !ok || before.LastPull.Before(c.LastPull) {
				byName[c.Name] = c
			}
		}
	}
	var all []Consumer
	for _, c := range byName {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Consumer) int {
		return cmp.Or(b.LastPull.Compare(a.LastPull), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// call answers a request here if this node owns the partition, and asks its owner otherwise. While nobody owns it, it
// looks again for as long as an answer may take.
func (r *Router) call(ctx context.Context, partition int32, m message) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Request.Wait+answerTime)
	defer cancel()
	for {
		var own Answer
		if r.owns(partition) {
			var err error
			if own, err = r.answer(ctx, m); err != nil || !slices.Contains(own.States, Unknown) || r.deps.Bus == nil {
				return own, err
			}
		}
		answer, heard, err := r.ask(ctx, partition, m, own)
		switch {
		case heard, err == nil && len(own.States) > 0:
			return answer, err
		case r.deps.Bus == nil && r.deps.Local == nil, err != nil:
			return Answer{}, errors.Join(ErrUnavailable, err)
		case wait.For(ctx, ownerPause) != nil:
			return Answer{}, ErrUnavailable
		}
	}
}

func (r *Router) owns(partition int32) bool {
	return r.deps.Local != nil && slices.Contains(r.deps.Owned(), partition)
}

func (r *Router) answer(ctx context.Context, m message) (a Answer, err error) {
	switch m.Op {
	case opPull:
		a.Events, err = r.deps.Local.Pull(ctx, m.Request)
	case opAcknowledge:
		a.States, err = r.deps.Local.Acknowledge(ctx, m.Request)
	case opConsumers:
		a.Consumers = r.deps.Local.Consumers(m.Request.Destination)
	}
	return a, err
}

// ask asks the owner of a partition. heard is false if there is none now. An answer of this node is added to.
func (r *Router) ask(ctx context.Context, partition int32, m message, a Answer) (_ Answer, heard bool, err error) {
	if r.deps.Bus == nil {
		return a, false, nil
	}
	m.Number, m.From = rand.Text(), r.self
	q := &question{answers: make(chan message, maxOwners), all: m.Op == opAcknowledge}
	r.mu.Lock()
	r.pending[m.Number] = q
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pending, m.Number)
	}()
	channel := channelOf(partition)
	listeners, err := r.send(ctx, channel, m)
	if err != nil || listeners == 0 {
		return a, false, err
	}
	if !q.all {
		listeners = 1
	}
	for range listeners {
		select {
		case got := <-q.answers:
			if err := got.failure(); err != nil {
				return a, true, err
			}
			a = a.add(got.Answer)
			if q.all && !slices.Contains(a.States, Unknown) {
				return a, true, nil
			}
		case <-ctx.Done():
			if m.Op == opPull {
				late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_, _ = r.send(late, channel, message{Op: opCancel, Number: m.Number}) // else its leases end by their time
			}
			return a, true, ErrUnavailable
		}
	}
	return a, true, nil
}

// failure is the error of an answer.
func (m *message) failure() error {
	for _, known := range sentErrors {
		if m.Error == known.Error() {
			return known
		}
	}
	if m.Error != "" {
		return fmt.Errorf("%w: %s", ErrUnavailable, m.Error)
	}
	return nil
}

// add takes the states of another answer where this one has none, or knows no lease.
func (a Answer) add(other Answer) Answer {
	for i, state := range a.States {
		if i < len(other.States) && other.States[i] == Unknown {
			other.States[i] = state
		}
	}
	return other
}

// Changed tells that this node has other partitions. It does not wait.
func (r *Router) Changed() { wait.Wake(r.changed) }

// Run answers requests of other nodes until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	var answering sync.WaitGroup
	defer answering.Wait()
	if r.deps.Bus == nil {
		<-ctx.Done()
		return nil
	}
	r.deps.Bus.Listen(ctx, r.channels, r.changed, func(channel string, sealed []byte) {
		m, err := r.open(ctx, channel, sealed)
		if err != nil {
			return // somebody else writes to the channel
		}
		if channel == r.self {
			if !r.deliver(m) && len(m.Answer.Events) > 0 {
				answering.Go(func() {
					_, _ = r.send(ctx, m.From, message{Op: opTakeBack, Request: leasesOf(m.Request, m.Answer)})
				})
			}
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.Op == opCancel {
			if cancel := r.running[m.Number]; cancel != nil {
				cancel()
			}
			return
		}
		if len(r.running) >= maxRemote {
			answering.Go(func() { _, _ = r.send(ctx, m.From, message{Number: m.Number, Error: ErrTooMany.Error()}) })
			return
		}
		asked, cancel := context.WithTimeout(ctx, m.Request.Wait+answerTime)
		r.running[m.Number] = cancel
		answering.Go(func() {
			defer cancel()
			r.serve(asked, m)
		})
	})
	return nil
}

// deliver passes an answer to who waits for it. It returns false if nobody does: it comes too late, or to a request
// that somebody has recorded and sent again.
func (r *Router) deliver(m message) bool {
	if m.Op == opTakeBack {
		r.deps.Local.TakeBack(m.Request)
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.pending[m.Number]
	if q == nil {
		return false
	}
	if !q.all {
		delete(r.pending, m.Number)
	}
	select {
	case q.answers <- m:
	default: // more than maxOwners
	}
	return true
}

// leasesOf is the request to take the events of an answer back.
func leasesOf(asked Request, a Answer) Request {
	leases := Request{Destination: asked.Destination}
	for i := range a.Events {
		leases.Attempts = append(leases.Attempts, a.Events[i].Attempt)
	}
	return leases
}

// serve answers a request of another node.
func (r *Router) serve(ctx context.Context, m message) {
	a, err := r.answer(ctx, m)
	r.mu.Lock()
	delete(r.running, m.Number)
	r.mu.Unlock()
	reply := message{Number: m.Number, From: r.self, Answer: a, Request: Request{Destination: m.Request.Destination}}
	if err != nil {
		reply.Error = err.Error()
	}
	if listeners, err := r.send(ctx, m.From, reply); (listeners == 0 || err != nil) && len(a.Events) > 0 {
		r.deps.Local.TakeBack(leasesOf(m.Request, a))
	}
}

func (r *Router) channels() []string {
	all := []string{r.self}
	if r.deps.Local != nil {
		for _, partition := range r.deps.Owned() {
			all = append(all, channelOf(partition))
		}
	}
	return all
}

func (r *Router) send(ctx context.Context, channel string, m message) (listeners int64, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	sealer, err := r.cipher(ctx)
	if err != nil {
		return 0, err
	}
	return r.deps.Bus.Publish(ctx, channel, sealer.Seal(nil, nil, text, []byte(channel)))
}

func (r *Router) open(ctx context.Context, channel string, sealed []byte) (m message, err error) {
	sealer, err := r.cipher(ctx)
	if err != nil {
		return m, err
	}
	text, err := sealer.Open(nil, nil, sealed, []byte(channel))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

// cipher is made anew for each message: an import of the configuration changes the key.
func (r *Router) cipher(ctx context.Context) (cipher.AEAD, error) {
	key, err := r.deps.Key(ctx)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
