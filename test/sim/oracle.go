package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
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
	order     []string // ids of acknowledged events, oldest first
	got       map[receipt][]attempt
	byKey     map[string]map[string]bool // ids of events that came under a key
	groups    map[string]string          // of an event
	requests  int
	targets   map[string]*target // by id
	hosts     map[string]*target
	erased    map[string]time.Time // of an event: since when no attempt may begin; zero: it is being erased
	replays   map[string]bool      // events that were replayed
	again     []again
	disturbed []window // in which faults were that may repeat a delivery
	tries     map[receipt]map[int]*try
	due       map[string]time.Time // of an event: it must have arrived
	expires   map[string]bool      // events that may expire
	late      map[receipt]bool     // accepted, but not answered in time
	broken    []string
}

// ack is an acknowledged event.
type ack struct {
	id    string
	ep    *endpoint
	asked time.Time // when it was sent first
	at    time.Time
}

// again is a replay that was answered.
type again struct {
	event string
	at    time.Time
}

type receipt struct{ event, host string }

type attempt struct {
	at     time.Time
	status int // 0: none was answered
	maybe  bool
	by     string
}

func newOracle(w *World) *oracle {
	return &oracle{w: w, acks: make(map[string]ack), got: make(map[receipt][]attempt), groups: make(map[string]string),
		byKey: make(map[string]map[string]bool), targets: make(map[string]*target), hosts: make(map[string]*target),
		erased: make(map[string]time.Time), replays: make(map[string]bool), tries: make(map[receipt]map[int]*try),
		due: make(map[string]time.Time), expires: make(map[string]bool), late: make(map[receipt]bool)}
}

// target makes a destination known.
func (o *oracle) target(id, host string, settings map[string]any) *target {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &target{id: id, host: host, ordered: settings["ordering"] != nil, pulled: settings["pull"] != nil,
		policy: exponential}
	o.targets[id], o.hosts[host] = t, t
	o.w.dest(host)
	return t
}

func (o *oracle) host(name string) *target {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hosts[name]
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
	if o.w.cfg.First {
		fmt.Println("BROKEN:", line)
		os.Exit(1)
	}
}

// idOf is the event of a key; empty: it was not acknowledged.
func (o *oracle) idOf(key string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acks[key].id
}

// mayExpire says that an event need not be delivered: it has expires_at.
func (o *oracle) mayExpire(eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expires[eventID] = true
}

// acknowledged records that a client was answered 202.
func (o *oracle) acknowledged(key, eventID string, ep *endpoint, group string, asked time.Time) {
	if o.w.ledger != nil {
		o.w.ledger.hasEvent(eventID)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.acks[key]; ok {
		if before.id != eventID {
			o.breach("the key %s was answered with %s and with %s", key, before.id, eventID)
		}
		return
	}
	o.acks[key] = ack{id: eventID, ep: ep, asked: asked, at: time.Now()}
	o.order = append(o.order, eventID)
	o.groups[eventID] = group
	o.w.trace("%s acknowledged as %s %s", key, eventID, group)
}

// eventsOf are the acknowledged events of an endpoint.
func (o *oracle) eventsOf(ep *endpoint) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.acks {
		if a.ep == ep {
			ids = append(ids, a.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// any is one of the events that were acknowledged last, "" if there is none. Those of an ordered destination stay as
// they are: a replay is not in order.
func (o *oracle) any(most int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.order), most)
	if n == 0 {
		return ""
	}
	id := o.order[len(o.order)-1-o.w.intn(n)]
	if o.groups[id] != "" {
		return ""
	}
	return id
}

// excuse says that deliveries of events that were sent or acknowledged in a time need not be made. The function that it
// returns sets the end of that time.
func (o *oracle) excuse(t *target, from, until time.Time) (end func(time.Time)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(t.excused)
	t.excused = append(t.excused, window{from, until})
	return func(until time.Time) {
		o.mu.Lock()
		defer o.mu.Unlock()
		t.excused[i].until = until
	}
}

func (o *oracle) isExcused(t *target, a ack) bool {
	return slices.ContainsFunc(t.excused, func(x window) bool {
		return !a.at.Before(x.from) && !a.asked.After(x.until)
	})
}

// ban begins now.
func (o *oracle) ban(t *target, b ban) *ban {
	o.mu.Lock()
	defer o.mu.Unlock()
	b.from = time.Now()
	t.bans = append(t.bans, &b)
	return &b
}

func (o *oracle) lift(b *ban) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b.until = time.Now()
}

// erase says that a payload is being erased, or was.
func (o *oracle) erase(eventID string, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := o.erased[eventID]; at.IsZero() {
		o.erased[eventID] = time.Time{}
		if done {
			o.erased[eventID] = time.Now()
		}
	}
}

// replay says that an event may be delivered again from now on.
func (o *oracle) replay(eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replays[eventID] = true
}

// replayed records the answer to a replay.
func (o *oracle) replayed(eventID string, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.again = append(o.again, again{eventID, asked})
}

// maybe records an acknowledgement of a consumer that was not answered.
func (o *oracle) maybe(t *target, eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := receipt{eventID, t.host}
	o.got[r] = append(o.got[r], attempt{at: time.Now(), maybe: true})
}

// begins checks that a process may begin an attempt.
func (o *oracle) begins(l *life, t *target, eventID string) {
	if l.node.pausedSince(time.Now().Add(-2 * time.Second)) {
		return // it may have decided before it was paused
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.erased[eventID]; ok && !at.IsZero() && now.After(at) {
		o.breach("%s is sent to %s by %s although its payload was erased at %v", eventID, t.host, l.node.name,
			at.Sub(o.w.began))
	}
	for _, b := range t.bans {
		if now.After(b.from) && (b.until.IsZero() || now.Before(b.until)) &&
			(b.before.IsZero() || o.acknowledgedBefore(eventID, b.before)) && !(o.replays[eventID] && !b.before.IsZero()) {
			o.breach("%s is sent to %s by %s although %s at %v", eventID, t.host, l.node.name, b.why, b.from.Sub(o.w.began))
		}
	}
}

func (o *oracle) acknowledgedBefore(eventID string, at time.Time) bool {
	for _, a := range o.acks {
		if a.id == eventID {
			return a.at.Before(at)
		}
	}
	return false
}

// attempt records a request that reached a destination. l is nil for a pull, the body for an acknowledgement.
func (o *oracle) attempt(l *life, t *target, eventID string, body []byte, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	by := "a pull"
	if l != nil {
		by = fmt.Sprint(l.node.name, l.number)
	}
	r := receipt{eventID, t.host}
	o.got[r] = append(o.got[r], attempt{at: time.Now(), status: status, by: by})
	if body == nil {
		o.w.trace("%s is acknowledged to %s", eventID, t.host)
		return
	}
	var sent struct {
		Data struct {
			Key string `json:"key"`
		} `json:"data"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		o.breach("%s got a body that nobody sent: %s", t.host, body)
	}
	key := sent.Data.Key + sent.Key
	if o.byKey[key] == nil {
		o.byKey[key] = make(map[string]bool)
	}
	o.byKey[key][eventID] = true
	o.w.trace("%s gets %s of %s from %s: %d", t.host, eventID, key, by, status)
}

// check compares what was promised with what came, when all faults are over and all waits should have ended.
func (o *oracle) check() {
	uncommitted := o.uncommitted()
	if o.w.ledger != nil {
		o.w.ledger.check()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.acks)) {
		a := o.acks[key]
		for _, t := range a.ep.targets {
			o.checkDelivery(key, a, t)
		}
	}
	for _, x := range o.again {
		o.checkReplay(x)
	}
	o.checkOrder()
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

// checkDelivery checks that an acknowledged event arrived, and that repeats have a reason.
func (o *oracle) checkDelivery(key string, a ack, t *target) {
	var accepted []time.Time
	inDoubt := o.late[receipt{a.id, t.host}]
	for _, x := range o.got[receipt{a.id, t.host}] {
		if x.status >= 200 && x.status < 300 || x.maybe {
			accepted = append(accepted, x.at)
			inDoubt = inDoubt || x.maybe
		}
	}
	_, isErased := o.erased[a.id]
	o.checkDue(a.id, t, accepted)
	if len(accepted) == 0 && !isErased && !o.isExcused(t, a) && !o.expires[a.id] && !o.gaveUp(a.id, t) {
		o.breach("%s (%s), acknowledged at %v, was not delivered to %s: %s", key, a.id, a.at.Sub(o.w.began), t.host,
			o.state(a.id, t.host))
	}
	for i := 1; i < len(accepted) && !o.replays[a.id] && !inDoubt; i++ {
		if !o.explains(accepted[i-1], accepted[i]) {
			o.breach("%s (%s) was delivered to %s at %v and again at %v without a fault that explains it", key, a.id, t.host,
				accepted[i-1].Sub(o.w.began), accepted[i].Sub(o.w.began))
		}
	}
}

// memory is how long before a delivery a fault may have begun that repeats it: what it held up lasts so long.
const memory = 2 * time.Minute

// explains reports whether a fault of the time between two deliveries may have repeated the first.
func (o *oracle) explains(first, second time.Time) bool {
	return slices.ContainsFunc(o.disturbed, func(x window) bool {
		return x.from.Before(second) && (x.until.IsZero() || x.until.Add(memory).After(first))
	})
}

// answersLate says that a destination accepts an event, of which the node does not hear.
func (o *oracle) answersLate(t *target, eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late[receipt{eventID, t.host}] = true
}

// mayRepeat reports whether a fault may have repeated a delivery of an event of that time, when all is over.
func (o *oracle) mayRepeat(sent time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.explains(sent, time.Now())
}

// checkReplay checks that an answered replay was delivered after it was asked for.
func (o *oracle) checkReplay(x again) {
	if _, ok := o.erased[x.event]; ok {
		return
	}
	for _, a := range o.acks {
		if a.id != x.event {
			continue
		}
		for _, t := range a.ep.targets {
			arrived := slices.ContainsFunc(o.got[receipt{x.event, t.host}], func(y attempt) bool {
				return y.at.After(x.at) && (y.status >= 200 && y.status < 300 || y.maybe)
			})
			if !arrived && !o.isExcused(t, a) && !o.isExcused(t, ack{asked: x.at, at: x.at}) && !t.policy.mayFail {
				o.breach("%s, replayed at %v, was not delivered again to %s: %s", x.event, x.at.Sub(o.w.began), t.host,
					o.state(x.event, t.host))
			}
		}
	}
}

// checkOrder checks that events of a group arrived at an ordered destination first in the order of the log.
func (o *oracle) checkOrder() {
	type last struct {
		event string
		at    time.Time
	}
	newest := make(map[receipt]last)
	for _, eventID := range o.w.store.inOrder() {
		group := o.groups[eventID]
		if group == "" {
			continue
		}
		for host, t := range o.hosts {
			if !t.ordered {
				continue
			}
			slot := receipt{group, host}
			var first time.Time
			for _, x := range o.got[receipt{eventID, host}] {
				// A power cut may remove the record that was sent. Then the next record of the event has the order.
				again := o.w.machine != nil && first.Before(newest[slot].at)
				if (first.IsZero() || again) && x.status >= 200 && x.status < 300 {
					first = x.at
				}
			}
			if first.IsZero() {
				continue
			}
			if before := newest[slot]; first.Before(before.at) && !o.hadEnded(t, eventID, first) {
				o.breach("%s got %s at %v, before %s of the same group, which is older, at %v", host, eventID,
					first.Sub(o.w.began), before.event, before.at.Sub(o.w.began))
			}
			newest[slot] = last{eventID, first}
		}
	}
}

// hadEnded reports whether a delivery may have ended before it was accepted: a crash before that was committed makes it
// again, after its successor. So does a slow disk.
func (o *oracle) hadEnded(t *target, eventID string, accepted time.Time) bool {
	_, erased := o.erased[eventID]
	return erased || slices.ContainsFunc(t.bans, func(b *ban) bool {
		return b.ends && b.from.Before(accepted) && o.acknowledgedBefore(eventID, b.from)
	})
}

// accepts is how often a destination has accepted an event.
func (o *oracle) accepts(eventID, host string) (n int) {
	for _, x := range o.got[receipt{eventID, host}] {
		if x.status >= 200 && x.status < 300 || x.maybe {
			n++
		}
	}
	return n
}

// disturb says that a fault begins that may repeat a delivery. The function that it returns ends it.
func (o *oracle) disturb() (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(o.disturbed)
	o.disturbed = append(o.disturbed, window{from: time.Now()})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.disturbed[i].until = time.Now()
	}
}

// unexpected reports an answer that no fault explains.
func (o *oracle) unexpected(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breach(format, args...)
}

// settled reports whether the store has a final outcome of every delivery.
func (o *oracle) settled() bool {
	if len(o.uncommitted()) > 0 {
		return false
	}
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
			if x.outcome.Status == event.Delivered && o.accepts("evt_"+e.String(), o.targets[dest].host) == 0 {
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
