package alert

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
)

const (
	// giveUpAfter is how long a notice is retried. Targets that have not received it by then are dropped.
	giveUpAfter = 24 * time.Hour
	// The pause after a failed send doubles from firstPause up to longestPause.
	firstPause   = 10 * time.Second
	longestPause = time.Hour
	// maxSends bounds the alerts that one node sends or records at the same time. It is well above channelSends times the
	// number of channels, because the recording of a result holds no slot.
	maxSends = 64
	// pollEvery is how often the notifier checks for due notices: retries, and notices that another node left behind.
	pollEvery = time.Second
	// stopTimeout is how long a stop waits for sends in progress: the dispatcher stops only after them, and all must end
	// within 30 s (node/node.go). recordTimeout bounds the recording of one result, also after stopTimeout.
	stopTimeout, recordTimeout = 3 * time.Second, 5 * time.Second
)

// notifier sends the notices of alerts through the account's channels. It goes over the alerts of the account that have
// notices, not only those of this node's partitions, and sends the notices that this node holds the lease of and those
// whose lease has expired.
type notifier struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	wake    chan struct{} // capacity 1

	mu      sync.Mutex                 // guards busy, slots and settled
	busy    map[string]bool            // notices that a goroutine of this node is sending
	slots   map[string]chan struct{}   // by channel; capacity channelSends: one element for each send
	settled map[string]map[string]bool // by notice: targets that are done, until the configuration log has it
}

func newNotifier(cfg Config, deps Deps, m *metrics) *notifier {
	return &notifier{cfg: cfg, deps: deps, metrics: m, wake: make(chan struct{}, 1), busy: map[string]bool{},
		slots: map[string]chan struct{}{}, settled: map[string]map[string]bool{}}
}

// wakeUp makes run check for due notices now instead of at the next tick. It never blocks.
func (nf *notifier) wakeUp() {
	select {
	case nf.wake <- struct{}{}:
	default:
	}
}

// run sends due notices until ctx ends. Then it waits up to stopTimeout for the sends that are in progress, and up to
// recordTimeout for their results to be recorded: an unrecorded notice would be sent a second time by another node. It
// waits no longer, even if a send ignores its context.
func (nf *notifier) run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })()
	var sends errgroup.Group
	sends.SetLimit(maxSends)
	defer nf.awaitSends(&sends)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for _, x := range nf.dueAlerts() {
			if ctx.Err() != nil {
				break
			}
			notice, c := nf.claimSlots(x)
			// TryGo: a stop must not wait here for a goroutine to end.
			if len(c) == 0 || !sends.TryGo(func() error { nf.sendNotice(ctx, sending, x.ID, notice, c); return nil }) {
				c.release()
				nf.clearBusy(notice)
			}
		}
		if ctx.Err() == nil && nf.digestIsDue() && nf.markBusy(config.AlertMailBudget) {
			if !sends.TryGo(func() error {
				nf.runDigest(sending)
				nf.clearBusy(config.AlertMailBudget)
				return nil
			}) {
				nf.clearBusy(config.AlertMailBudget)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-nf.wake:
		}
	}
}

// awaitSends waits until all sends have ended and are recorded, but no longer than that can take when they heed their
// context.
func (nf *notifier) awaitSends(sends *errgroup.Group) {
	ended := make(chan struct{})
	var waiting sync.WaitGroup // nobody waits for it: the goroutine ends with the last send
	waiting.Go(func() {
		_ = sends.Wait() // the functions return nil
		close(ended)
	})
	select {
	case <-ended:
	case <-time.After(stopTimeout + recordTimeout):
		nf.deps.Log.Warn("cannot wait any longer for alert notices that are being sent; they may be sent twice")
	}
}

// sendNotice sends a busy notice of an alert through the channels that it has claimed. ctx ends with the notifier,
// sending a while later.
func (nf *notifier) sendNotice(ctx, sending context.Context, alert, notice string, c claims) {
	newest := nf.deps.Config.Alert(alert) // it may have changed since the slots were claimed
	recorded := ctx.Err() == nil && newest != nil && nf.sendOpen(sending, newest, notice, c)
	c.release()
	if nf.clearBusy(notice); recorded {
		nf.wakeUp() // the next notice of the same alert may be due
	}
}

// dueAlerts returns the alerts that have a notice which this node may send now, busy notices and those without a slot
// included. The one that is due the longest is first: retries of newer alerts must not take the slots that it waits
// for.
func (nf *notifier) dueAlerts() []*config.Alert {
	now, mails := nf.deps.Now(), nf.mailBudget()
	since := map[string]time.Time{}
	due := nf.deps.Notices.AlertsWithNotices(func(x *config.Alert) bool {
		n, ok := nf.nextNotice(x, mails, now, allOpen)
		if ok {
			since[x.ID] = n.NextAt
		}
		return ok
	})
	slices.SortStableFunc(due, func(a, b *config.Alert) int { return since[a.ID].Compare(since[b.ID]) })
	return due
}

// nextNotice returns the first notice of an alert that this node may send now. Its PendingTargets are only those that
// no earlier notice of the alert still waits for: no target receives "resolved" before "firing", and a target that
// fails delays no other target. Targets that are not due yet, mail addresses that wait for a digest and what choose
// leaves out are left out.
func (nf *notifier) nextNotice(x *config.Alert, mails *config.AlertBudget, now time.Time,
	choose func(n config.AlertNotice, open []string) []string) (config.AlertNotice, bool) {
	var before []string
	for _, n := range x.Notices {
		mail := mayMailNow(mails, n.ID, now)
		open := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool {
			return slices.Contains(before, to) || now.Before(n.TargetDue(to)) ||
				isMail(to) && !mail
		})
		if len(open) > 0 && (n.LeaseNode == nf.cfg.Node || now.After(n.LeaseUntil)) {
			if chosen := choose(n, open); len(chosen) > 0 {
				n.PendingTargets = chosen
				return n, true
			}
		}
		before = append(before, n.PendingTargets...)
	}
	return config.AlertNotice{}, false
}

// allOpen chooses all open targets of a notice.
func allOpen(_ config.AlertNotice, open []string) []string { return open }

// markBusy reserves a notice for the calling goroutine. It returns false if another goroutine has it.
func (nf *notifier) markBusy(notice string) bool {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	if nf.busy[notice] {
		return false
	}
	nf.busy[notice] = true
	return true
}

func (nf *notifier) clearBusy(notice string) {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	delete(nf.busy, notice)
}

func (nf *notifier) isBusy(notice string) bool {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	return nf.busy[notice]
}

// sendOpen sends a notice of an alert once, through the channels that it has claimed, and records the result. It
// reports whether the result was recorded.
func (nf *notifier) sendOpen(ctx context.Context, x *config.Alert, notice string, c claims) (recorded bool) {
	var r round
	n, ok := nf.leaseNotice(ctx, x, func(n config.AlertNotice, open []string) []string {
		if n.ID != notice {
			return nil
		}
		chosen := slices.DeleteFunc(slices.Clone(open), func(to string) bool { return c[channelOf(to)] == nil })
		r.leftOpen = len(chosen) < len(open)
		return chosen
	})
	if !ok {
		return false
	}
	r.targets = n.PendingTargets
	if slices.ContainsFunc(n.PendingTargets, isMail) && !nf.reserveMail(ctx, n.ID) {
		if n.PendingTargets = slices.DeleteFunc(slices.Clone(n.PendingTargets), isMail); len(n.PendingTargets) == 0 {
			return false // it waits for the digest
		}
	}
	channels, err := notify.OpenChannels(nf.deps.Keyring, nf.deps.Config.AlertSettings())
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot open alert channels", slog.Any("error", err))
	}
	sent, opened := make(chan struct{}), err == nil
	var sending sync.WaitGroup
	sending.Go(func() {
		defer close(sent)
		nf.send(ctx, n, channels, nf.message(x, n), opened, c)
	})
	nf.recordReceived(ctx, x.ID, n.ID, sent)
	sending.Wait()
	return nf.recordResult(ctx, x.ID, n.ID, r)
}

// recordReceived records once a second which targets have received a notice while others have not answered yet, if the
// alert has further notices: a channel that hangs must not delay these in the others. It returns when sent is closed.
func (nf *notifier) recordReceived(ctx context.Context, alert, notice string, sent <-chan struct{}) {
	tick := time.NewTicker(slotWait)
	defer tick.Stop()
	for {
		select {
		case <-sent:
			return
		case <-tick.C:
		}
		x := nf.deps.Config.Alert(alert)
		if x != nil && len(x.Notices) > 1 && nf.hasSettled(notice) &&
			nf.changeNotice(ctx, alert, notice, func(*config.AlertNotice, time.Time) {}) {
			nf.wakeUp() // the next notice may be due for them
		}
	}
}

// round is one try to send a notice.
type round struct {
	targets  []string // of the try
	leftOpen bool     // other targets had no slot
}

// leaseNotice chooses the next due notice and takes its lease in the configuration log, so that no other node sends it
// before the lease expires. It extends a lease of this node that has less than half of its time left. The targets of
// the notice are those that choose returned last.
func (nf *notifier) leaseNotice(ctx context.Context, x *config.Alert,
	choose func(n config.AlertNotice, open []string) []string) (config.AlertNotice, bool) {
	mails := nf.mailBudget()
	n, ok := nf.nextNotice(x, mails, nf.deps.Now(), choose)
	if !ok || n.LeaseNode == nf.cfg.Node && n.LeaseUntil.Sub(nf.deps.Now()) > leaseTime/2 {
		return n, ok
	}
	changed, err := nf.deps.Config.ChangeAlert(ctx, x.ID, func(x *config.Alert) error {
		now := nf.deps.Now()
		var ok bool
		if n, ok = nf.nextNotice(x, mails, now, choose); !ok {
			return config.ErrAlertUnchanged // another node was first
		}
		i := slices.IndexFunc(x.Notices, func(is config.AlertNotice) bool { return is.ID == n.ID })
		x.Notices[i].LeaseNode, x.Notices[i].LeaseUntil = nf.cfg.Node, now.Add(leaseTime)
		return nil
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot take the lease of an alert notice", slog.String("alert", x.ID),
			slog.Any("error", err))
	}
	return n, err == nil && changed != nil
}

// send sends a notice to its open targets concurrently and marks those that received it as settled. Targets whose
// channel is no longer configured or enabled, and addresses that were refused for good, are settled too. opened is
// false when the channels could not be opened; then nothing is sent. A slot is given back when its send has ended.
func (nf *notifier) send(ctx context.Context, n config.AlertNotice, channels []notify.SavedChannel, m notify.Message,
	opened bool, c claims) {
	if !opened {
		return
	}
	var all sync.WaitGroup
	open := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool { return nf.isSettled(n.ID, to) })
	var addresses []string
	for _, target := range open {
		if address, mail := strings.CutPrefix(target, mailTarget); mail {
			addresses = append(addresses, address)
			continue
		}
		i := slices.IndexFunc(channels, func(c notify.SavedChannel) bool { return string(c.Kind) == target && c.Enabled })
		if i < 0 {
			nf.markSettled(n.ID, target)
			continue
		}
		all.Go(func() {
			if r := nf.sendOnce(ctx, channels[i].Channel, m); r.OK {
				nf.markSettled(n.ID, target)
			}
			c[target]()
			nf.wakeUp() // other notices may wait for the slot
		})
	}
	if len(addresses) > 0 {
		nf.sendMail(ctx, channels, addresses, m, n.ID)
		c[string(notify.Email)]()
		nf.wakeUp()
	}
	all.Wait()
}

// sendOnce makes one attempt to send a message through a channel, logs a failure and counts the result.
func (nf *notifier) sendOnce(ctx context.Context, c notify.Channel, m notify.Message) notify.Result {
	r := nf.deps.Sender.Send(ctx, c, m)
	result := "ok"
	if !r.OK {
		result = string(r.Error)
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot send an alert notice", slog.String("channel", string(c.Kind)),
			slog.String("target", c.Target()), slog.String("error", string(r.Error)), slog.String("message", r.Message))
	}
	nf.metrics.sendAttempts.WithLabelValues(string(c.Kind), result).Inc()
	return r
}

// markSettled remembers targets that received a notice, or never will.
func (nf *notifier) markSettled(notice string, to ...string) {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	if nf.settled[notice] == nil {
		nf.settled[notice] = map[string]bool{}
	}
	for _, t := range to {
		nf.settled[notice][t] = true
	}
}

func (nf *notifier) isSettled(notice, to string) bool {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	return nf.settled[notice][to]
}

func (nf *notifier) hasSettled(notice string) bool {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	return len(nf.settled[notice]) > 0
}

// recording returns a context for recording a result: a stop does not end it, but recordTimeout does.
func recording(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
}

// recordResult removes the settled targets from a notice in the configuration log, and the notice from its alert when
// no target is left or its 24 hours are over. If the log takes no record, the settled targets stay in memory: the
// next pass tries again and sends to none of them twice. Any node may send it to targets that wait for a slot here.
func (nf *notifier) recordResult(ctx context.Context, alert, notice string, r round) bool {
	return nf.changeNotice(ctx, alert, notice, func(n *config.AlertNotice, now time.Time) {
		pauseFailed(n, r.targets, now)
		n.LeaseNode, n.LeaseUntil = nf.cfg.Node, n.NextAt.Add(leaseTime)
		if r.leftOpen {
			n.LeaseUntil = now
		}
	})
}

// changeNotice removes the settled targets from a notice in the configuration log, and the notice if no target is left.
// Otherwise it calls alter, which may change the rest. It reports whether the log has the change.
func (nf *notifier) changeNotice(ctx context.Context, alert, notice string,
	alter func(n *config.AlertNotice, now time.Time)) bool {
	ctx, cancel := recording(ctx)
	defer cancel()
	changed, err := nf.deps.Config.ChangeAlert(ctx, alert, func(x *config.Alert) error {
		i := slices.IndexFunc(x.Notices, func(n config.AlertNotice) bool { return n.ID == notice })
		if i < 0 {
			return config.ErrAlertUnchanged
		}
		n, now := &x.Notices[i], nf.deps.Now().UTC()
		if n.PendingTargets = nf.openTargets(n, now); len(n.PendingTargets) == 0 {
			x.Notices = slices.Delete(x.Notices, i, i+1)
			return nil
		}
		alter(n, now)
		return nil
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record the result of an alert notice", slog.String("alert", alert),
			slog.Any("error", err))
		return false
	}
	nf.forgetSettled(changed, notice)
	return true
}

// pauseFailed sets when the pending targets of a notice are tried next. Those that were tried have failed and pause.
// The others stay due: one that waits for a slot does not shorten the pause of one that fails.
func pauseFailed(n *config.AlertNotice, tried []string, now time.Time) {
	retry := now.Add(min(firstPause<<min(n.Tries, 20), longestPause))
	due, failed := map[string]time.Time{}, false
	for _, to := range n.PendingTargets {
		if due[to] = n.TargetDue(to); slices.Contains(tried, to) {
			due[to], failed = retry, true
		}
	}
	if failed {
		n.Tries++
	}
	n.DueAt, n.NextAt = due, slices.MinFunc(slices.Collect(maps.Values(due)), time.Time.Compare)
}

// openTargets returns the targets of a notice that are not settled; none when its 24 hours are over.
func (nf *notifier) openTargets(n *config.AlertNotice, now time.Time) []string {
	to := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool { return nf.isSettled(n.ID, to) })
	if len(to) > 0 && now.Sub(n.At) >= giveUpAfter {
		nf.metrics.dropped.Add(float64(len(to)))
		return nil
	}
	return to
}

// forgetSettled drops what markSettled remembered of notices, once the configuration log has it. Targets that are
// pending in x, the alert as it is in the log, stay: they were settled meanwhile. x is nil if the log has none of the
// notices.
func (nf *notifier) forgetSettled(x *config.Alert, notices ...string) {
	pending := map[string][]string{}
	if x != nil {
		for _, n := range x.Notices {
			pending[n.ID] = n.PendingTargets
		}
	}
	nf.mu.Lock()
	defer nf.mu.Unlock()
	for _, notice := range notices {
		maps.DeleteFunc(nf.settled[notice], func(to string, _ bool) bool { return !slices.Contains(pending[notice], to) })
		if len(nf.settled[notice]) == 0 {
			delete(nf.settled, notice)
		}
	}
}
