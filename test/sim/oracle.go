package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// oracle saw every acknowledgement and every request, and knows what must hold.
type oracle struct {
	w *World

	mu        sync.Mutex // guards the fields below
	acks      map[string]ack
	got       map[receipt][]attempt
	byKey     map[string]map[string]bool // ids of events that came under a key
	requests  int
	host      map[string]string // of a destination, by its id
	disturbed bool              // a fault has happened that may repeat a delivery
	broken    []string
}

// ack is an acknowledged event.
type ack struct {
	id    string
	dests []string // hosts
	at    time.Time
}

type receipt struct{ event, host string }

type attempt struct {
	at     time.Time
	status int // 0: none was answered
	by     string
}

func newOracle(w *World) *oracle {
	return &oracle{w: w, acks: make(map[string]ack), got: make(map[receipt][]attempt),
		byKey: make(map[string]map[string]bool), host: make(map[string]string)}
}

func (o *oracle) accepted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acks)
}

// breach reports a promise that did not hold.
func (o *oracle) breach(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	o.broken = append(o.broken, line)
	o.w.trace("BROKEN: %s", line)
}

// acknowledged records that a client was answered 202.
func (o *oracle) acknowledged(key, eventID string, dests []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.acks[key]; ok {
		if before.id != eventID {
			o.breach("the key %s was answered with %s and with %s", key, before.id, eventID)
		}
		return
	}
	o.acks[key] = ack{id: eventID, dests: dests, at: time.Now()}
	o.w.trace("%s acknowledged as %s", key, eventID)
}

// attempt records a request that reached a destination.
func (o *oracle) attempt(l *life, host, eventID string, body []byte, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	r := receipt{eventID, host}
	o.got[r] = append(o.got[r], attempt{time.Now(), status, fmt.Sprint(l.node.name, l.number)})
	var sent struct {
		Data struct {
			Key string `json:"key"`
		} `json:"data"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		o.breach("%s got a body that nobody sent: %s", host, body)
	}
	key := sent.Data.Key + sent.Key
	if o.byKey[key] == nil {
		o.byKey[key] = make(map[string]bool)
	}
	o.byKey[key][eventID] = true
	o.w.trace("%s gets %s of %s from %s%d: %d", host, eventID, key, l.node.name, l.number, status)
}

// check compares what was promised with what came, when all faults are over and all waits should have ended.
func (o *oracle) check() {
	uncommitted := o.uncommitted()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.acks)) {
		a := o.acks[key]
		for _, host := range a.dests {
			arrived := o.accepts(a.id, host)
			if arrived == 0 {
				o.breach("%s (%s), acknowledged at %v, was not delivered to %s: %s", key, a.id, a.at.Sub(o.w.began), host,
					o.state(a.id, host))
			}
			if arrived > 1 && !o.disturbed {
				o.breach("%s (%s) was delivered %d times to %s without a fault", key, a.id, arrived, host)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.byKey)) {
		ids := slices.Sorted(maps.Keys(o.byKey[key]))
		if len(ids) > 1 && strings.HasPrefix(key, "once-") {
			o.breach("the key %s became %d events: %v", key, len(ids), ids)
		}
		if a, ok := o.acks[key]; ok && !slices.Contains(ids, a.id) {
			o.breach("the key %s was acknowledged as %s and delivered as %v", key, a.id, ids)
		}
	}
	for _, n := range o.w.nodes {
		if l := n.current(); l == nil || !l.ready.Load() {
			o.breach("%s did not become ready", n.name)
		} else if seen := len(l.control.Nodes()); seen != len(o.w.nodes) {
			o.breach("%s hears of %d nodes", n.name, seen)
		}
	}
	o.checkStore()
	for _, fault := range uncommitted {
		o.breach("%s", fault)
	}
}

// accepts is how often a destination has accepted an event.
func (o *oracle) accepts(eventID, host string) (n int) {
	for _, x := range o.got[receipt{eventID, host}] {
		if x.status >= 200 && x.status < 300 {
			n++
		}
	}
	return n
}

func (o *oracle) disturb() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.disturbed = true
}

// unexpected reports an answer that no fault explains.
func (o *oracle) unexpected(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breach(format, args...)
}

// settled reports whether the store has a final outcome of every delivery.
func (o *oracle) settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, stored := range s.events {
		for _, dest := range stored.Dests {
			if x, ok := s.latest[delivery{e, dest}]; !ok || !x.outcome.Status.Terminal() {
				return false
			}
		}
	}
	return true
}

// state is what the store has of a delivery.
func (o *oracle) state(eventID, host string) string {
	e, err := id.Parse(id.Event, eventID)
	if err != nil {
		return err.Error()
	}
	s := o.w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events[e] == nil {
		return "the log does not have it"
	}
	text := "no outcome"
	for key, x := range s.latest {
		if key.event == e {
			text = fmt.Sprintf("%s %s, next at %v", x.outcome.Status, x.outcome.Reason, x.outcome.NextAt.Sub(o.w.began))
		}
	}
	return text
}

// checkStore compares the final statuses with what the destinations got.
func (o *oracle) checkStore() {
	s := o.w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.SortedFunc(maps.Keys(s.events), id.ID.Compare) {
		stored := s.events[e]
		for _, dest := range stored.Dests {
			x, ok := s.latest[delivery{e, dest}]
			if !ok {
				o.breach("the store has no outcome of %v at %s", e, dest)
				continue
			}
			if !x.outcome.Status.Terminal() {
				o.breach("%v at %s is still %s (%s)", e, dest, x.outcome.Status, x.outcome.Reason)
			}
			if x.outcome.Status == event.Delivered && o.accepts("evt_"+e.String(), o.host[dest]) == 0 {
				o.breach("the store says that %v was delivered to %s, which never accepted it", e, dest)
			}
		}
	}
}

// uncommitted names records that no node has finished, or whose end was never committed.
func (o *oracle) uncommitted() (faults []string) {
	reader, err := stream.NewReader(o.w.stream(), "oracle")
	if err != nil {
		return []string{err.Error()}
	}
	defer reader.Close()
	topics := []string{stream.Events, stream.Commands}
	for _, tier := range stream.Tiers() {
		topics = append(topics, tier.Topic)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := reader.Ends(ctx, topics...)
	if err != nil {
		return []string{err.Error()}
	}
	committed, err := reader.Committed(ctx, stream.DispatchGroup, topics...)
	if err != nil {
		return []string{err.Error()}
	}
	for _, topic := range topics {
		for i := range o.w.partitions {
			p := stream.Partition{Topic: topic, Index: i}
			if ends[p] != committed[p] {
				faults = append(faults, fmt.Sprintf("%d of %d records of %s are committed", committed[p], ends[p], topic))
			}
		}
	}
	return faults
}
