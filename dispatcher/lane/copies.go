package lane

import "github.com/eventrelay/relay/pkg/event"

// copyKeyOf returns the key of a delivery of which the log may have two records. ok is false for a first automatic
// attempt that was not parked: its record is the event, which is in the log once. So most deliveries cost no lookup.
// After a crash an event may be read again beside its own follow-up; then both are sent.
func copyKeyOf(work *event.Work) (key DeliveryKey, ok bool) {
	if work == nil || work.Event == nil || work.Run == "" && work.Attempt <= 1 && !work.WasParked() {
		return DeliveryKey{}, false
	}
	return KeyOf(work), true
}

// unrecorded are the deliveries of a node of which the log may have two records, from Admit until they are recorded,
// their follow-up is produced, or they leave the node. There are no more of them than the node may hold. They are
// guarded by Lanes.mu.
type unrecorded map[DeliveryKey]*Delivery

// hasOther reports whether another record of the delivery is queued, sent or being recorded. Then this one can end
// without an attempt and without an outcome: the other record stays uncommitted until its outcome is in the log, so
// after a crash or on another node it is delivered again. If the partition of the other record has left
// this node, that may be this very record, which was read again. So it does not count.
func (u unrecorded) hasOther(key DeliveryKey) bool {
	other := u[key]
	if other == nil || !other.Slot.BeginDelivery() {
		return false
	}
	other.Slot.EndDelivery()
	return true
}

// isCopy reports whether the delivery is a second record of one that is remembered, and remembers it if not.
func (u unrecorded) isCopy(key DeliveryKey, delivery *Delivery) bool {
	if u.hasOther(key) {
		return true
	}
	u[key] = delivery
	return false
}

func (u unrecorded) remove(delivery *Delivery) {
	if key, ok := copyKeyOf(delivery.Work); ok && u[key] == delivery {
		delete(u, key)
	}
}

// ForgetCopies is called before the follow-up of a delivery is produced. The follow-up has the same key, and may be due
// before the outcome of the delivery is in the log: ended as a copy it would be lost.
func (ls *Lanes) ForgetCopies(delivery *Delivery) {
	if _, ok := copyKeyOf(delivery.Work); ok {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.unrecorded.remove(delivery)
	}
}

// isCopy reports whether the delivery is a second record of one that this node has not recorded yet. If it is none, it
// is remembered as the first.
func (ls *Lanes) isCopy(delivery *Delivery) bool {
	key, ok := copyKeyOf(delivery.Work)
	if !ok {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.unrecorded.isCopy(key, delivery) {
		return false
	}
	ls.laneOf(delivery, ls.now()).countReturned(delivery.Work)
	if ls.unrecorded[key].placeEnded { // this one was read afterwards, and so has a place again
		ls.endPlace(delivery, ls.now())
	}
	return true
}
