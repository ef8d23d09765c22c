package alert

import (
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
)

// A channel that is slow, or accepts requests and never answers, must not delay the others: a tripwire's message has to
// reach Slack although hundreds of notices wait for a webhook. So each channel has slots of its own, and a notice that
// gets none holds no goroutine.
const (
	// channelSends bounds the sends of one node through one channel at the same time, so that a channel that does not
	// answer occupies no more, and no receiver gets hundreds of requests at once.
	channelSends = 8
	// slotWait is how long a notice waits until all its channels can take it. Then it is sent to those that can, and the
	// others stay open: a slow channel delays no notice of another alert by more than this and one poll.
	slotWait = time.Second
)

// claims are the slots that a send has: by channel, the function that gives the slot back. Later calls do nothing.
type claims map[string]func()

func (c claims) release() {
	for _, release := range c {
		release()
	}
}

// channelOf returns the channel of a target. All addresses share the channel of mail.
func channelOf(target string) string {
	if isMail(target) {
		return string(notify.Email)
	}
	return target
}

// channelSlots returns the slots of a channel.
func (nf *notifier) channelSlots(channel string) chan struct{} {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	if nf.slots[channel] == nil {
		nf.slots[channel] = make(chan struct{}, channelSends)
	}
	return nf.slots[channel]
}

// withSlots returns the open targets of a notice whose channel has a free slot; none while the notice may still wait
// for a slot of the others.
func (nf *notifier) withSlots(n config.AlertNotice, open []string) []string {
	free := slices.DeleteFunc(slices.Clone(open), func(to string) bool {
		slots := nf.channelSlots(channelOf(to))
		return len(slots) == cap(slots)
	})
	if len(free) < len(open) && nf.deps.Now().Sub(n.NextAt) < slotWait {
		return nil
	}
	return free
}

// claimSlots takes a slot of each channel that the next notice of an alert may be sent through now, and marks the
// notice as busy. A notice that is busy already is left out: the next one may go to the targets that have received it.
// It never waits: a notice whose channels are all occupied holds no goroutine, and no lease but its first one.
func (nf *notifier) claimSlots(x *config.Alert) (notice string, c claims) {
	n, ok := nf.nextNotice(x, nf.mailBudget(), nf.deps.Now(), func(n config.AlertNotice, open []string) []string {
		if nf.isBusy(n.ID) {
			return nil
		}
		return nf.withSlots(n, open)
	})
	if !ok || !nf.markBusy(n.ID) {
		return "", nil
	}
	c = claims{}
	for _, to := range n.PendingTargets {
		channel := channelOf(to)
		if c[channel] != nil {
			continue
		}
		slots := nf.channelSlots(channel)
		select {
		case slots <- struct{}{}:
			c[channel] = sync.OnceFunc(func() { <-slots })
		default: // a digest was first
		}
	}
	return n.ID, c
}
