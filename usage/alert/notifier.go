package alert

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// giveUpAfter is how long a notice is retried. Targets that have not received it by then are dropped.
	giveUpAfter = 24 * time.Hour
	// The pause after a failed send to a target doubles from firstPause up to longestPause.
	firstPause   = 10 * time.Second
	longestPause = time.Hour
	// channelSends bounds the sends through one channel at the same time. A channel that accepts requests and never
	// answers occupies no more and delays no other channel, and no receiver gets hundreds of requests at once.
	channelSends = 8
	// pollEvery is how often the notifier checks for due notices: retries, and notices that another node has written.
	pollEvery = time.Second
	// leaseTime is the duration of the sender's lease: after a crash no other node sends until it has expired. A send
	// begins only while more than half of it is left. The other half suffices for one send and one recording.
	leaseTime = 3 * notify.Timeout
	// stopTimeout is how long a stop waits for sends in progress: the dispatcher stops only after them, and all must end
	// within 30 s (node/stack.go). recordTimeout bounds the recording of one result, also after stopTimeout.
	stopTimeout, recordTimeout = 3 * time.Second, 5 * time.Second
)

// notifier sends the notices of the account's alerts. One node, the sender, sends those of all nodes: it holds the
// lease in the budget of mails. Per channel, the notice that has been due longest is sent first.
type notifier struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	wake    chan struct{} // capacity 1

	mu      sync.Mutex      // guards sending and running
	sending map[string]bool // keys of the parts that are being sent or recorded; see part.key
	running map[string]int  // number of goroutines by channel
}

func newNotifier(cfg Config, deps Deps, m *metrics) *notifier {
	return &notifier{cfg: cfg, deps: deps, metrics: m, wake: make(chan struct{}, 1), sending: map[string]bool{},
		running: map[string]int{}}
}

// part is a notice with its targets in one channel.
type part struct {
	alert  *alerting.Alert
	notice alerting.AlertNotice
	to     []string
}

func (p *part) key() string { return p.notice.ID + "/" + channelOf(p.to[0]) }

// request is what one goroutine sends through a channel: a notice, or the mails of a digest.
type request struct {
	parts  []part
	digest bool
	due    time.Time
}

func (r *request) channel() string { return channelOf(r.parts[0].to[0]) }

// channelOf returns the channel of a target. All addresses share the channel of mail.
func channelOf(target string) string {
	if isMail(target) {
		return string(notify.Email)
	}
	return target
}

// wakeUp makes run check for due notices now instead of at the next tick. It never blocks.
func (nf *notifier) wakeUp() { wait.Wake(nf.wake) }

// run sends due notices until ctx ends. Then it waits up to stopTimeout for the sends that are in progress, and up to
// recordTimeout for their results to be recorded: another node would send an unrecorded notice a second time.
func (nf *notifier) run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })()
	var sends sync.WaitGroup
	defer nf.stop(&sends)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if due := nf.dueRequests(); len(due) > 0 && ctx.Err() == nil && nf.isSender(ctx) {
			for _, r := range due {
				if nf.claim(r) {
					sends.Go(func() {
						recorded := nf.deliver(sending, r)
						if nf.release(r); recorded {
							nf.wakeUp() // notices that waited for the channel, or for this notice, may be due
						}
					})
				}
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

// stop waits until all sends have ended and are recorded, then gives back the lease, so that another node may send at
// once. It waits at most stopTimeout + recordTimeout, even if a send ignores its context.
func (nf *notifier) stop(sends *sync.WaitGroup) {
	ended := make(chan struct{})
	var waiting sync.WaitGroup // nobody waits for it: the goroutine ends with the last send
	waiting.Go(func() {
		sends.Wait()
		close(ended)
	})
	select {
	case <-ended:
	case <-time.After(stopTimeout + recordTimeout):
		nf.deps.Log.Warn("alert notices were still being sent at shutdown; they may be sent twice")
		return // the lease expires by itself
	}
	if b := nf.mailBudget(); b.Held(nf.deps.Now()) && b.Holder == nf.cfg.Node {
		ctx, cancel := context.WithTimeout(context.Background(), pollEvery)
		defer cancel()
		nf.changeBudget(ctx, func(b *alerting.AlertBudget, _ time.Time) bool {
			b.HeldUntil = time.Time{}
			return true
		})
	}
}

// isSender reports whether this node may send now. If it has to take or extend the lease, it returns false and wakes
// run, which reads the due notices again: the previous sender may have sent some.
func (nf *notifier) isSender(ctx context.Context) bool {
	if nf.hasLease() {
		return true
	}
	if b := nf.mailBudget(); b.Held(nf.deps.Now()) && b.Holder != nf.cfg.Node {
		return false
	}
	if nf.changeBudget(ctx, func(b *alerting.AlertBudget, now time.Time) bool {
		if b.Held(now) && b.Holder != nf.cfg.Node {
			return false
		}
		b.Holder, b.HeldUntil = nf.cfg.Node, now.Add(leaseTime)
		return true
	}) {
		nf.wakeUp()
	}
	return false
}

// hasLease reports whether this node has the lease for as long as a send takes.
func (nf *notifier) hasLease() bool {
	b, now := nf.mailBudget(), nf.deps.Now()
	return b.Held(now) && b.Holder == nf.cfg.Node && b.HeldUntil.Sub(now) > leaseTime/2
}

// dueRequests returns the requests that are due and not in progress, the longest due first. A target gets no notice
// while an earlier one of the alert is pending for it, so that "resolved" never arrives before "firing".
func (nf *notifier) dueRequests() (all []request) {
	nf.mu.Lock()
	sending := maps.Clone(nf.sending) // before the alerts are read: they have the results of all sends that are not in it
	nf.mu.Unlock()
	now, budget := nf.deps.Now(), nf.mailBudget()
	var forDigest []part
	for _, x := range nf.deps.Config.AlertsWithNotices(nil) {
		var earlier, direct []string // targets of earlier notices; those whose notice is sent outside of the digest
		for _, n := range x.Notices {
			if gathers(n) && now.Before(n.NextAt) {
				earlier = append(earlier, n.PendingTargets...)
				continue
			}
			for channel, to := range byChannel(n.PendingTargets) {
				p := part{x, n, to}
				switch {
				case sending[p.key()]:
					direct = append(direct, to...)
				case channel == string(notify.Email) && isBudgetSpent(budget, now) && !hasOwnMail(budget, n.ID, now):
					if p.to = without(to, direct); len(p.to) > 0 {
						forDigest = append(forDigest, p)
					}
				default:
					direct = append(direct, to...)
					p.to = slices.DeleteFunc(without(to, earlier), func(to string) bool { return now.Before(n.TargetDue(to)) })
					if len(p.to) > 0 {
						all = append(all, request{parts: []part{p}, due: n.TargetDue(p.to[0])})
					}
				}
			}
			earlier = append(earlier, n.PendingTargets...)
		}
	}
	slices.SortStableFunc(forDigest, func(a, b part) int { return a.notice.At.Compare(b.notice.At) })
	if len(forDigest) > 0 && now.Sub(forDigest[0].notice.At) >= digestDelay && !now.Before(budget.NextAt) {
		all = append(all, request{parts: forDigest, digest: true, due: forDigest[0].notice.At})
	}
	slices.SortStableFunc(all, func(a, b request) int { return a.due.Compare(b.due) })
	return all
}

func byChannel(targets []string) map[string][]string {
	by := map[string][]string{}
	for _, to := range targets {
		by[channelOf(to)] = append(by[channelOf(to)], to)
	}
	return by
}

func without(targets, others []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(to string) bool { return slices.Contains(others, to) })
}

// claim takes a slot of the channel for a request. It returns false while the channel has none free.
func (nf *notifier) claim(r request) bool {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	if nf.running[r.channel()] >= channelSends {
		return false
	}
	nf.running[r.channel()]++
	for _, p := range r.parts {
		nf.sending[p.key()] = true
	}
	return true
}

func (nf *notifier) release(r request) {
	nf.mu.Lock()
	defer nf.mu.Unlock()
	nf.running[r.channel()]--
	for _, p := range r.parts {
		delete(nf.sending, p.key())
	}
}

// deliver sends a request once and records which targets received it. It reports whether it was sent and recorded.
func (nf *notifier) deliver(ctx context.Context, r request) (recorded bool) {
	if r.channel() == string(notify.Email) && !nf.reserveMail(ctx, r) {
		return false
	}
	for i := range r.parts {
		if !nf.endGathering(ctx, &r.parts[i]) {
			return false
		}
	}
	if !nf.hasLease() {
		return false // these records took so long that another node may soon send
	}
	channels, err := notify.OpenChannels(nf.deps.Keyring, nf.deps.Config.AlertSettings())
	done := map[string]bool{}
	switch {
	case err != nil:
		nf.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot open alert channels", slog.Any("error", err))
	case r.digest:
		nf.sendDigest(ctx, channels, r.parts, done)
	default:
		p := r.parts[0]
		nf.send(ctx, channels, p.to, nf.message(p.alert, p.notice), done)
	}
	recorded = true
	for _, p := range r.parts {
		recorded = nf.record(ctx, p, done, r.digest) && recorded
	}
	return recorded
}

// endGathering reads a digest of findings again, and lets it count no more of them from now on.
func (nf *notifier) endGathering(ctx context.Context, p *part) (ended bool) {
	if !gathers(p.notice) {
		return true
	}
	return nf.changeNotice(ctx, p, func(n *alerting.AlertNotice) {
		n.Begun = "*"
		p.notice, ended = *n, true
	}) && ended
}

// send sends a message to targets of one channel and marks the targets that received it as done. Targets whose channel
// or address is no longer configured or enabled, and addresses that were refused permanently, are marked too.
func (nf *notifier) send(ctx context.Context, channels []notify.SavedChannel, targets []string, m notify.Message,
	done map[string]bool) {
	kind := notify.Kind(channelOf(targets[0]))
	i := slices.IndexFunc(channels, func(c notify.SavedChannel) bool { return c.Kind == kind && c.Enabled })
	c := notify.Channel{Kind: kind}
	if i >= 0 && kind != notify.Email {
		c = channels[i].Channel
	}
	for _, to := range targets {
		address, mail := strings.CutPrefix(to, mailTarget)
		if done[to] = i < 0 || mail && !slices.Contains(channels[i].To, address); mail && !done[to] {
			c.To = append(c.To, address)
		}
	}
	if !slices.ContainsFunc(targets, func(to string) bool { return !done[to] }) {
		return
	}
	r := nf.deps.Sender.Send(ctx, c, m)
	result := "ok"
	if !r.OK {
		result = string(r.Error)
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot send an alert notice", slog.String("channel", string(c.Kind)),
			slog.String("target", c.Target()), slog.String("error", string(r.Error)), slog.String("message", r.Message))
	}
	nf.metrics.sendAttempts.WithLabelValues(string(c.Kind), result).Inc()
	if !r.OK && r.Undelivered == nil {
		return
	}
	for _, to := range targets {
		later, undelivered := r.Undelivered[strings.TrimPrefix(to, mailTarget)]
		if undelivered && !later {
			nf.metrics.dropped.Inc()
		}
		done[to] = done[to] || !later
	}
}

// record removes the targets that are done from a notice in the configuration log, and failed targets giveUpAfter after
// the notice was made. Other failed targets pause; those of a digest wait for the next one. record retries until the
// log takes the change or ctx ends, so that this node does not send the notice a second time.
func (nf *notifier) record(ctx context.Context, p part, done map[string]bool, digest bool) (recorded bool) {
	failed := slices.DeleteFunc(slices.Clone(p.to), func(to string) bool { return done[to] })
	if len(failed) > 0 && nf.deps.Now().Sub(p.notice.At) >= giveUpAfter {
		nf.metrics.dropped.Add(float64(len(failed)))
		failed = nil
	}
	settled := without(p.to, failed)
	for !nf.changeNotice(ctx, &p, func(n *alerting.AlertNotice) {
		n.PendingTargets = without(n.PendingTargets, settled)
		if !digest {
			nf.pause(n, failed)
		}
	}) {
		if wait.For(ctx, pollEvery) != nil {
			return false
		}
	}
	return true
}

// pause sets when failed targets are tried next. The pause is firstPause longer than all earlier pauses of the target
// together, at most longestPause: 10 s, 20 s, 40 s and so on. The other targets stay due as they are.
func (nf *notifier) pause(n *alerting.AlertNotice, failed []string) {
	now, due := nf.deps.Now().UTC(), map[string]time.Time{}
	maps.Copy(due, n.DueAt)
	for _, to := range failed {
		due[to] = now.Add(min(n.TargetDue(to).Sub(n.NextAt)+firstPause, longestPause))
	}
	n.DueAt = due
}

// changeNotice changes a notice in the configuration log and removes it once it has no pending target. It returns true
// if the change was recorded or the notice no longer exists.
func (nf *notifier) changeNotice(ctx context.Context, p *part, alter func(*alerting.AlertNotice)) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_, err := nf.deps.Config.ChangeAlert(ctx, p.alert.ID, func(x *alerting.Alert) error {
		i := slices.IndexFunc(x.Notices, func(n alerting.AlertNotice) bool { return n.ID == p.notice.ID })
		if i < 0 {
			return alerting.ErrAlertUnchanged
		}
		if alter(&x.Notices[i]); len(x.Notices[i].PendingTargets) == 0 {
			x.Notices = slices.Delete(x.Notices, i, i+1)
		}
		return nil
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot change an alert notice",
			slog.String("alert", p.alert.ID), slog.Any("error", err))
	}
	return err == nil
}
