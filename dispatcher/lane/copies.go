package lane

import (
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// copyKey names a delivery of which the log may have two records.
type copyKey struct {
	event id.ID
	dest  string
	run   string // id of the replay or recovery job
}

// copyKeyOf returns the key of a delivery. ok is false for a first automatic attempt that was not parked: its record
// is the event, which is in the log once. So most deliveries cost no lookup. After a crash an event may be read again
// beside its own follow-up; then both are sent.
func copyKeyOf(work *event.Work) (key copyKey, ok bool) {
	if work == nil || work.Event == nil || work.Run == "" && work.Attempt <= 1 && !work.WasParked() {
		return copyKey{}, false
	}
	return copyKey{work.Event.ID, work.Dest, work.Run}, true
}

// unrecorded are the deliveries of a node that have a copyKey, from Admit until they are recorded, their follow-up is
// produced, or they leave the node. There are no more of them than the node may hold. They are guarded by Lanes.mu.
type unrecorded map[copyKey]*Delivery

// hasOther reports whether another record of the delivery is queued, sent or being recorded. Then this one can end
// without an attempt and without an outcome: the other record stays uncommitted until its outcome is in the log, so
// after a crash or on another node it is delivered again. If the partition of the other record has left
// this node, that may be this very record, which was read again. So it does not count.
func (u unrecorded) hasOther(key copyKey) bool {
	other := u[key]
	if other == nil || !other.Slot.BeginDelivery() {
		return false
	}
	other.Slot.EndDelivery()
	return true
}

func (u unrecorded) remove(delivery *Delivery) {
	if key, ok := copyKeyOf(delivery.Work); ok && u[key] == delivery {
		delete(u, key)
	}
}

// ForgetCopies is called before the follow-up of a delivery is produced. The follow-up has the same key, and may be due
// before the outcome of the delivery is in the log: ended as a copy it would be lost.
func ForgetCopies(ls *Lanes, delivery *Delivery) {
	if _, ok := copyKeyOf(delivery.Work); ok {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.unrecorded.remove(delivery)
	}
}

// isCopy reports whether the delivery is a second record of one that this node has not recorded yet. If it is none, it
// is remembered as the first.
func isCopy(ls *Lanes, delivery *Delivery) bool {
	key, ok := copyKeyOf(delivery.Work)
	if !ok {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.unrecorded.hasOther(key) {
		ls.countReturned(ls.laneOf(delivery, ls.now()), delivery.Work)
		return true
	}
	ls.unrecorded[key] = delivery
	return false
}
