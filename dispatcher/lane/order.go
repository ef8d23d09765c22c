package lane

import (
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Deliveries of an ordered destination have a place (event.Place). Of those with one slot, which are those of a key,
// the one with the lowest position may be sent; the others wait for their turn. The positions of all of them are in
// memory. The deliveries themselves are in the lane while their key progresses, else parked in a retry topic, from
// where the dispatcher fetches them when their turn is near (Wanted).
//
// The positions are known to this node alone. A new owner of a partition learns them from the log (Survey) before it
// sends any.
const (
	// turnPatience is how long deliveries wait in memory since their key has progressed. Then they are parked, so that
	// their records can be committed.
	turnPatience = 5 * time.Second
	// behindRecheck is the shortest interval of re-checks of a delivery that is not at its turn.
	behindRecheck = time.Minute
	// maxPositions bounds the memory for the unfinished deliveries to ordered destinations of a node, in units of 8 bytes:
	// a position takes one and a slot slotCost. A destination may have a quarter of what is free, and always
	// minPositions, so the destinations of one endpoint together never reach the bound. Its further events fail.
	maxPositions = 4 << 20
	minPositions = 1024
	slotCost     = 24
	// A key that progresses and has fewer than fewHeld deliveries in memory gets up to wantedAhead more from the retry
	// topics, all keys together maxWanted at once.
	fewHeld     = 8
	maxHeld     = 256 // how far from its turn a delivery may wait in memory: others would take the place of nearer ones
	wantedAhead = 64
	maxWanted   = 1024
)

// orders are the orders of the destinations in the partitions of one number. They are guarded by Lanes.mu.
type orders struct {
	index    int32
	surveyed bool  // what the retry topics have is known
	needRead int64 // an earlier owner has read the events below this position
	readTo   int64 // this node has
	dests    map[string]*order
	ended    map[PlaceKey]struct{} // that ended before ready
}

// order is the order of one destination.
type order struct {
	*orders
	dest      string
	slots     map[uint64]*turns
	firsts    map[id.ID]*turns // those with a first event, by it
	positions int              // in all slots
	held      int              // deliveries in memory that wait for their turn
}

// turns are the deliveries of one slot.
type turns struct {
	*order
	slot      uint64
	positions []int64             // ascending
	held      map[int64]*Delivery // those that wait for their turn in memory; nil if there are none
	since     time.Time           // when the first one became the first, or came to its lane
	first     id.ID               // event of the first one; zero: it has not come to its lane
}

// PlaceKey names a delivery of an ordered destination.
type PlaceKey struct {
	Dest     string
	Slot     uint64
	Position int64
}

// ready reports whether all positions up to those that were read are known.
func (o *orders) ready() bool { return o.surveyed && o.readTo >= o.needRead }

// ordersOf finds or makes the orders of a partition's number. Lanes.mu is held, as for all functions below that do not
// take it.
func (ls *Lanes) ordersOf(index int32) *orders {
	o := ls.orders[index]
	if o == nil {
		o = &orders{index: index, surveyed: ls.surveyWanted == nil, dests: make(map[string]*order),
			ended: make(map[PlaceKey]struct{})}
		ls.orders[index] = o
		if !o.surveyed {
			ls.surveyWanted()
		}
	}
	return o
}

// turnsOf finds or makes the turns of a slot.
func (o *orders) turnsOf(dest string, slot uint64, now time.Time) *turns {
	d := o.dests[dest]
	if d == nil {
		d = &order{orders: o, dest: dest, slots: make(map[uint64]*turns), firsts: make(map[id.ID]*turns)}
		o.dests[dest] = d
	}
	s := d.slots[slot]
	if s == nil {
		s = &turns{order: d, slot: slot, since: now}
		d.slots[slot] = s
	}
	return s
}

// addPosition adds a position if it is new.
func (ls *Lanes) addPosition(s *turns, position int64) {
	at, found := slices.BinarySearch(s.positions, position)
	if found {
		return
	}
	if len(s.positions) == 0 {
		ls.slots++
	}
	ls.positions++
	s.order.positions++
	if s.positions = slices.Insert(s.positions, at, position); at == 0 {
		s.setFirst(id.ID{})
	}
}

// setFirst sets the event of the first delivery.
func (s *turns) setFirst(event id.ID) {
	if s.order.firsts[s.first] == s {
		delete(s.order.firsts, s.first)
	}
	if s.first = event; !event.IsZero() {
		s.order.firsts[event] = s
	}
}

// front is the position and the event whose turn it is; zero: unknown. Before the orders are ready it may have come
// already.
func (s *turns) front() (position int64, ev id.ID) {
	if len(s.positions) == 0 { // what is held has ended meanwhile
		return 0, ev
	}
	position = s.positions[0]
	if delivery := s.held[position]; s.first.IsZero() && delivery != nil {
		return position, delivery.Work.Event.ID
	}
	return position, s.first
}

// orderFull reports whether a destination may have no more unfinished deliveries. One that is known already may go on.
func (ls *Lanes) orderFull(d *order, place event.Place) bool {
	if d == nil {
		return false
	}
	if s := d.slots[place.Slot]; s != nil {
		if _, known := slices.BinarySearch(s.positions, place.Position); known {
			return false
		}
	}
	free := ls.maxPositions - ls.positions - slotCost*ls.slots
	return d.positions+slotCost*len(d.slots) >= max(free/4, minPositions)
}

// AddPlace adds a delivery that was read from a retry topic: it is unfinished, although it may not be due for long.
func (ls *Lanes) AddPlace(delivery *Delivery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	work := delivery.Work
	s := ls.ordersOf(delivery.Slot.Partition().ID.Index).turnsOf(work.Dest, work.Place.Slot, ls.now())
	ls.addPosition(s, work.Place.Position)
	if s.positions[0] == work.Place.Position && work.Parked == "" { // a retry comes when it is due: nobody searches for it
		s.setFirst(work.Event.ID)
	}
}

// awaitTurn holds a delivery until its turn, or says why it must be parked or fails. It does neither if it is its turn.
func (l *Lane) awaitTurn(delivery *Delivery, now time.Time) (held bool, reason event.Reason) {
	ls, work, partition := l.lanes, delivery.Work, delivery.Slot.Partition()
	place := work.Place
	switch {
	case place.Position == 0:
		return false, ""
	case !ls.rules.Ordered(work): // any more
		ls.leaveOrder(delivery, now)
		return false, ""
	}
	o := ls.ordersOf(partition.ID.Index)
	// What retry topics have is counted already.
	if partition.ID.Topic == stream.Events && ls.orderFull(o.dests[l.dest], place) {
		work.Place = event.Place{}
		return false, event.OrderFull
	}
	s := o.turnsOf(l.dest, place.Slot, now)
	ls.addPosition(s, place.Position)
	if s.positions[0] == place.Position && o.ready() {
		if s.first.IsZero() {
			s.setFirst(work.Event.ID)
			s.since = now // those that come with it may wait for it
		}
		return false, ""
	}
	ahead, _ := slices.BinarySearch(s.positions, place.Position)
	if s.held[place.Position] != nil || now.Sub(s.since) > turnPatience || ahead > maxHeld || s.order.held >= laneQueue ||
		l.deliveries > (ls.maxDeliveries-ls.deliveries)/2 || l.bytes+delivery.Size > (ls.maxBytes-ls.bytes)/2 {
		_, delivery.behind = s.front()
		return false, event.Behind
	}
	if s.held == nil {
		s.held = make(map[int64]*Delivery)
	}
	s.held[place.Position] = delivery
	s.order.held++
	if ls.holding[s] = struct{}{}; len(ls.holding) == 1 {
		ls.wakeTimer()
	}
	return true, ""
}

// EndPlace lets those after a delivery go: it has ended.
func (ls *Lanes) EndPlace(delivery *Delivery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delivery.placeEnded = true
	ls.endPlace(delivery, ls.now())
}

// leaveOrder ends the place of a delivery that is sent without one. Its copies have none either.
func (ls *Lanes) leaveOrder(delivery *Delivery, now time.Time) {
	delivery.placeEnded = true
	ls.endPlace(delivery, now)
	delivery.Work.Place = event.Place{}
}

func (ls *Lanes) endPlace(delivery *Delivery, now time.Time) {
	work := delivery.Work
	if o := ls.orders[delivery.Slot.Partition().ID.Index]; o != nil && work.Place.Position > 0 {
		ls.removePosition(o, PlaceKey{work.Dest, work.Place.Slot, work.Place.Position}, now)
	}
}

// Unblock lets those after a delivery go that retries or has failed for good: a replay has delivered it.
func (ls *Lanes) Unblock(index int32, work *event.Work) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if o := ls.orders[index]; o != nil && o.dests[work.Dest] != nil {
		if s := o.dests[work.Dest].firsts[work.Event.ID]; s != nil {
			ls.removePosition(o, PlaceKey{work.Dest, s.slot, s.positions[0]}, ls.now())
		}
	}
}

// removePosition removes a position and lets the next delivery of its slot go.
func (ls *Lanes) removePosition(o *orders, key PlaceKey, now time.Time) {
	if !o.ready() {
		o.ended[key] = struct{}{}
	}
	if o.dests[key.Dest] == nil || o.dests[key.Dest].slots[key.Slot] == nil {
		return
	}
	s := o.dests[key.Dest].slots[key.Slot]
	at, found := slices.BinarySearch(s.positions, key.Position)
	if !found {
		return
	}
	ls.positions--
	s.order.positions--
	if at > 0 {
		s.positions = slices.Delete(s.positions, at, at+1)
		return
	}
	s.positions, s.since = s.positions[1:], now
	s.setFirst(id.ID{})
	if len(s.positions) > 0 {
		ls.giveTurn(s)
		return
	}
	ls.slots--
	delete(ls.wanting, s)
	if delete(s.slots, s.slot); len(s.slots) == 0 {
		delete(o.dests, s.dest)
	}
}

// giveTurn lets the first delivery of a slot go if it is in memory. Else it and some after it are wanted.
func (ls *Lanes) giveTurn(s *turns) {
	if !s.ready() {
		return
	}
	if delivery := s.held[s.positions[0]]; delivery != nil {
		ls.unhold(s, s.positions[0])
		s.setFirst(delivery.Work.Event.ID)
		l := ls.byDest[s.dest]
		l.live.PushBack(delivery)
		l.startWorkers(1)
		if len(s.held) >= fewHeld || len(s.positions) == len(s.held)+1 {
			return
		}
	}
	ls.wanting[s] = struct{}{}
	ls.newWanted = true
	ls.wakeTimer()
}

// unhold takes a delivery out of those that wait for their turn in memory.
func (ls *Lanes) unhold(s *turns, position int64) {
	s.order.held--
	if delete(s.held, position); len(s.held) == 0 {
		s.held = nil
		delete(ls.holding, s)
	}
}

// impatient takes those out of memory that wait for too long for their turn. They must be parked. Those of a
// destination that is not ordered any more are sent.
func (ls *Lanes) impatient() (out []*Delivery, waits bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, ordered := ls.now(), make(map[*order]bool)
	for s := range ls.holding {
		if _, known := ordered[s.order]; !known {
			for _, delivery := range s.held {
				ordered[s.order] = ls.rules.Ordered(delivery.Work)
				break
			}
		}
		if !ordered[s.order] {
			ls.letGo(s, now)
			continue
		}
		if passed := now.Sub(s.since); passed >= 0 && passed <= turnPatience {
			continue
		}
		first, ev := s.front()
		for _, position := range slices.Sorted(maps.Keys(s.held)) { // in their order, so that they come back in it
			delivery := s.held[position]
			ls.unhold(s, position)
			l := ls.byDest[s.dest]
			l.deliveries--
			l.bytes -= delivery.Size
			if position != first {
				delivery.behind = ev
			}
			out = append(out, delivery)
		}
	}
	return out, len(ls.holding) > 0
}

// letGo sends all that wait for their turn in memory.
func (ls *Lanes) letGo(s *turns, now time.Time) {
	for _, position := range slices.Sorted(maps.Keys(s.held)) {
		delivery := s.held[position]
		if delivery == nil { // it has got its turn
			continue
		}
		ls.unhold(s, position)
		ls.leaveOrder(delivery, now)
		l := ls.byDest[s.dest]
		l.live.PushBack(delivery)
		l.startWorkers(1)
	}
}

// Wanted returns which deliveries of a partition's number are parked in retry topics, as far as this node knows, and
// are the next ones of their key: the first one alone until it has come, as those after it would be parked again.
// fresh: some are new since the last call.
func (ls *Lanes) Wanted() (wanted map[int32]map[PlaceKey]bool, fresh bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	fresh, ls.newWanted = ls.newWanted, false
	n := 0
	for s := range ls.wanting { // in a random order: each is found soon
		if n == maxWanted {
			break
		}
		if wanted == nil {
			wanted = make(map[int32]map[PlaceKey]bool)
		}
		if wanted[s.index] == nil {
			wanted[s.index] = make(map[PlaceKey]bool)
		}
		ahead := wantedAhead
		if s.first.IsZero() {
			ahead = 1
		}
		for _, position := range s.positions[:min(len(s.positions), ahead)] {
			if n < maxWanted && s.held[position] == nil {
				wanted[s.index][PlaceKey{s.dest, s.slot, position}] = true
				n++
			}
		}
		if !s.first.IsZero() { // it was enough to ask once
			delete(ls.wanting, s)
		}
	}
	return wanted, fresh
}

// KeyOfPlace names a delivery of an ordered destination.
func KeyOfPlace(work *event.Work) PlaceKey {
	return PlaceKey{work.Dest, work.Place.Slot, work.Place.Position}
}

// admitBlocker decides about the record of a delivery that has failed for good. It stays in the retry topics, and those
// after it wait, until a replay has delivered it or the configuration no longer wants it.
func (ls *Lanes) admitBlocker(delivery *Delivery) Decision {
	if !ls.Begin(delivery) {
		return Decision{Action: Dropped, Delivery: delivery}
	}
	work := delivery.Work
	eligibility := ls.rules.Check(work, false)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	l.countReturned(work)
	if eligibility.Known && (eligibility.Status != "" || !eligibility.Destination.BlocksAfterFailure()) {
		ls.endPlace(delivery, now)
		return Decision{Action: End, Delivery: delivery, DecidedAt: now}
	}
	s := ls.ordersOf(delivery.Slot.Partition().ID.Index).turnsOf(l.dest, work.Place.Slot, now)
	ls.addPosition(s, work.Place.Position)
	if s.positions[0] == work.Place.Position {
		s.setFirst(work.Event.ID)
	}
	return l.parkLocked(delivery, event.Behind, now)
}

// dropOrders forgets the orders of a partition's number. Its deliveries in memory that are not dropped wait as before.
func (ls *Lanes) dropOrders(index int32, dropped map[*Partition]bool) {
	o := ls.orders[index]
	if o == nil {
		return
	}
	delete(ls.orders, index)
	for _, d := range o.dests {
		ls.positions -= d.positions
		ls.slots -= len(d.slots)
		for _, s := range d.slots {
			delete(ls.wanting, s)
			delete(ls.holding, s)
			for position, delivery := range s.held {
				if dropped[delivery.Slot.Partition()] {
					ls.dropQueued(ls.byDest[s.dest], delivery)
					continue
				}
				next := ls.ordersOf(index).turnsOf(s.dest, s.slot, ls.now())
				ls.addPosition(next, position)
				if next.held == nil {
					next.held = make(map[int64]*Delivery)
				}
				next.held[position] = delivery
				next.order.held++
				ls.holding[next] = struct{}{}
			}
		}
	}
}

// Survey collects the places of deliveries that an earlier owner of partitions has left.
type Survey struct {
	lanes  *Lanes
	orders *orders
}

// Surveys returns the surveys that are to be made. Until they are finished, ordered destinations get nothing.
func (ls *Lanes) Surveys() (all []*Survey) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, o := range ls.orders {
		if !o.surveyed {
			all = append(all, &Survey{ls, o})
		}
	}
	return all
}

// Index is the number of the partitions.
func (s *Survey) Index() int32 { return s.orders.index }

// Add adds an unfinished delivery.
func (s *Survey) Add(dest string, place event.Place) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if s.lanes.orders[s.orders.index] == s.orders && !s.orders.surveyed {
		s.lanes.addPosition(s.orders.turnsOf(dest, place.Slot, s.lanes.now()), place.Position)
	}
}

// Finish ends a survey: all deliveries in the retry topics were added. The events below the positions readTo were read
// by this node; there are some up to end.
func (s *Survey) Finish(readTo, end int64) {
	ls, o := s.lanes, s.orders
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.orders[o.index] != o {
		return
	}
	for _, d := range o.dests {
		for _, t := range d.slots {
			o.needRead = max(o.needRead, t.positions[len(t.positions)-1])
		}
	}
	o.surveyed, o.needRead = true, min(o.needRead, end)
	ls.eventsRead(o, readTo)
}

// EventsRead says that the events below these positions were read.
func (ls *Lanes) EventsRead(index int32, readTo int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if o := ls.orders[index]; o != nil {
		ls.eventsRead(o, readTo)
	}
}

// eventsRead lets the first delivery of each slot go once all are known.
func (ls *Lanes) eventsRead(o *orders, readTo int64) {
	was := o.ready() && o.ended == nil
	if o.readTo = max(o.readTo, readTo); was || !o.ready() {
		return
	}
	for key := range o.ended {
		ls.removePosition(o, key, ls.now())
	}
	o.ended = nil
	for _, d := range o.dests {
		for _, s := range d.slots {
			ls.giveTurn(s)
		}
	}
}
