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
	Publish(ctx context.Context, channel string, message []byte) (heard bool, err error)
	Listen(ctx context.Context, channels func() []string, changed <-chan struct{}, handle func(string, []byte))
}

// Router passes requests to the nodes that own the partitions. Messages between nodes are encrypted: Redis holds no
// payload that somebody could read there.
type Router struct {
	deps    RouterDeps
	self    string // channel of this node
	changed chan struct{}

	mu      sync.Mutex // guards the fields below
	pending map[string]chan message
	running map[string]context.CancelFunc // requests of other nodes
}

// RouterDeps are the dependencies of a Router.
type RouterDeps struct {
	Local Owner                                   // nil: this node owns no partition
	Owned func() []int32                          // partitions of this node
	Bus   Bus                                     // nil: there is no other node, or none can be asked
	Key   func(context.Context) ([32]byte, error) // the same on all nodes
}

// NewRouter makes a router.
func NewRouter(deps RouterDeps) *Router {
	return &Router{deps: deps, self: "pull:node:" + rand.Text(), changed: make(chan struct{}, 1),
		pending: make(map[string]chan message), running: make(map[string]context.CancelFunc)}
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
// acknowledgement may be repeated.
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
		if r.owns(partition) {
			return r.answer(ctx, m)
		}
		answer, heard, err := r.ask(ctx, partition, m)
		switch {
		case heard:
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

// ask asks the owner of a partition. heard is false if there is none now.
func (r *Router) ask(ctx context.Context, partition int32, m message) (a Answer, heard bool, err error) {
	if r.deps.Bus == nil {
		return a, false, nil
	}
	m.Number, m.From = rand.Text(), r.self
	answers := make(chan message, 1)
	r.mu.Lock()
	r.pending[m.Number] = answers
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pending, m.Number)
	}()
	channel := channelOf(partition)
	if heard, err = r.send(ctx, channel, m); err != nil || !heard {
		return a, false, err
	}
	select {
	case got := <-answers:
		for _, known := range sentErrors {
			if got.Error == known.Error() {
				return a, true, known
			}
		}
		if got.Error != "" {
			err = fmt.Errorf("%w: %s", ErrUnavailable, got.Error)
		}
		return got.Answer, true, err
	case <-ctx.Done():
		if m.Op == opPull {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = r.send(late, channel, message{Op: opCancel, Number: m.Number}) // else its leases end by their time
		}
		return a, true, ErrUnavailable
	}
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
	waiting := r.pending[m.Number]
	if waiting != nil {
		delete(r.pending, m.Number)
		waiting <- m
	}
	return waiting != nil
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
	if heard, err := r.send(ctx, m.From, reply); (!heard || err != nil) && len(a.Events) > 0 {
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

func (r *Router) send(ctx context.Context, channel string, m message) (heard bool, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	sealer, err := r.cipher(ctx)
	if err != nil {
		return false, err
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
