package alert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
)

// earlierNode sends notices like a node of version 0.1.0, as far as the records of the configuration log tell: each
// node sends any notice that it has leased, and takes the lease of the budget for a digest only.
type earlierNode struct {
	*notifier

	mu   sync.Mutex // guards busy
	busy map[string]bool
}

func runEarlier(ctx context.Context, r *rig) {
	o := &earlierNode{notifier: r.notifier, busy: map[string]bool{}}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })()
	var sends sync.WaitGroup
	defer sends.Wait()
	once := func(name string, f func()) {
		if !o.mark(name, true) {
			return
		}
		sends.Go(func() {
			defer o.mark(name, false)
			f()
		})
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, x := range o.deps.Notices.AlertsWithNotices(nil) {
			if n, ok := o.next(x, o.mailBudget()); ok {
				once(n.ID, func() { o.sendOpen(sending, x.ID, n.ID) })
			}
		}
		if len(o.digestParts()) > 0 {
			once(alerting.AlertMailBudget, func() { o.sendDigest(sending) })
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// mark reserves a name, or gives it back. It returns false if it is taken.
func (o *earlierNode) mark(name string, take bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if take && o.busy[name] {
		return false
	}
	o.busy[name] = take
	return true
}

// next returns the first notice of an alert that the node may send, with the targets that it may send it to.
func (o *earlierNode) next(x *alerting.Alert, b *alerting.AlertBudget) (alerting.AlertNotice, bool) {
	var before []string
	now := o.deps.Now()
	for _, n := range x.Notices {
		mayMail := hasOwnMail(b, n.ID, now) || !isBudgetSpent(b, now) && !b.Held(now)
		open := slices.DeleteFunc(without(n.PendingTargets, before), func(to string) bool {
			return now.Before(n.TargetDue(to)) || isMail(to) && !mayMail
		})
		if len(open) > 0 && (n.LeaseNode == o.cfg.Node || now.After(n.LeaseUntil)) {
			n.PendingTargets = open
			return n, true
		}
		before = append(before, n.PendingTargets...)
	}
	return alerting.AlertNotice{}, false
}

// sendOpen leases a notice if it is still the next of its alert, sends it, and records the result.
func (o *earlierNode) sendOpen(ctx context.Context, alert, notice string) {
	var n alerting.AlertNotice
	b := o.mailBudget()
	x, err := o.deps.Config.ChangeAlert(ctx, alert, func(x *alerting.Alert) error {
		var ok bool
		if n, ok = o.next(x, b); !ok || n.ID != notice {
			return alerting.ErrAlertUnchanged
		}
		i := slices.IndexFunc(x.Notices, func(is alerting.AlertNotice) bool { return is.ID == n.ID })
		x.Notices[i].LeaseNode, x.Notices[i].LeaseUntil = o.cfg.Node, o.deps.Now().Add(leaseTime)
		return nil
	})
	if err != nil || x == nil {
		return
	}
	by := byChannel(n.PendingTargets)
	if len(by[string(notify.Email)]) > 0 && !o.reserveOwn(ctx, n.ID) {
		delete(by, string(notify.Email))
	}
	done, tried := o.sendAll(ctx, by, o.message(x, n)), slices.Concat(slices.Collect(maps.Values(by))...)
	o.recordUntil(ctx, alert, n.ID, func(n *alerting.AlertNotice) {
		retry, due := o.deps.Now().Add(min(firstPause<<min(n.Tries, 20), longestPause)), map[string]time.Time{}
		n.PendingTargets = slices.DeleteFunc(n.PendingTargets, func(to string) bool { return done[to] })
		for _, to := range n.PendingTargets {
			if due[to] = n.TargetDue(to); slices.Contains(tried, to) {
				due[to] = retry
			}
		}
		if n.Tries++; len(due) > 0 {
			n.DueAt, n.NextAt = due, slices.MinFunc(slices.Collect(maps.Values(due)), time.Time.Compare)
			n.LeaseNode, n.LeaseUntil = o.cfg.Node, n.NextAt.Add(leaseTime)
		}
	})
}

// sendAll sends a message to targets by channel, at the same time, and returns which are done.
func (o *earlierNode) sendAll(ctx context.Context, by map[string][]string, m notify.Message) map[string]bool {
	channels, err := notify.OpenChannels(o.deps.Keyring, o.deps.Config.AlertSettings())
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	var sends sync.WaitGroup
	all := map[string]bool{}
	for _, to := range by {
		sends.Go(func() {
			done := map[string]bool{}
			o.send(ctx, channels, to, m, done)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, done)
		})
	}
	sends.Wait()
	return all
}

// recordUntil changes a notice until the log has the change.
func (o *earlierNode) recordUntil(ctx context.Context, alert, notice string, alter func(*alerting.AlertNotice)) {
	p := part{&alerting.Alert{Meta: entity.Meta{ID: alert}}, alerting.AlertNotice{ID: notice}, nil}
	for !o.changeNotice(ctx, &p, alter) && ctx.Err() == nil {
		time.Sleep(pollEvery)
	}
}

// reserveOwn gives a notice a mail of its own.
func (o *earlierNode) reserveOwn(ctx context.Context, notice string) bool {
	return hasOwnMail(o.mailBudget(), notice, o.deps.Now()) ||
		o.changeBudget(ctx, func(b *alerting.AlertBudget, now time.Time) bool {
			if isBudgetSpent(b, now) || b.Held(now) {
				return false
			}
			b.RecordSent(alerting.AlertSent{ID: notice, At: now})
			return true
		})
}

// digestParts returns the notices of a digest that is due.
func (o *earlierNode) digestParts() (all []part) {
	now, b := o.deps.Now(), o.mailBudget()
	if !isBudgetSpent(b, now) || b.Held(now) || now.Before(b.NextAt) {
		return nil
	}
	return o.waiting()
}

// waiting returns the notices without a mail of their own.
func (o *earlierNode) waiting() (all []part) {
	for _, x := range o.deps.Notices.AlertsWithNotices(nil) {
		var kept []string
		for _, n := range x.Notices {
			if o.isBusy(n.ID) {
				break
			}
			to := slices.DeleteFunc(without(n.PendingTargets, kept), func(to string) bool { return !isMail(to) })
			if hasOwnMail(o.mailBudget(), n.ID, o.deps.Now()) {
				kept = append(kept, to...)
			} else if len(to) > 0 {
				all = append(all, part{x, n, to})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b part) int { return a.notice.At.Compare(b.notice.At) })
	return all
}

func (o *earlierNode) isBusy(notice string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.busy[notice]
}

// sendDigest mails the notices that have no mail of their own.
func (o *earlierNode) sendDigest(ctx context.Context) {
	if !o.changeBudget(ctx, func(b *alerting.AlertBudget, now time.Time) bool {
		if b.Held(now) || now.Before(b.NextAt) {
			return false
		}
		b.Holder, b.HeldUntil, b.NextAt = o.cfg.Node, now.Add(2*time.Minute), now.Add(digestEvery)
		return true
	}) {
		return
	}
	parts, done := o.waiting(), map[string]bool{}
	for _, p := range parts {
		o.mark(p.notice.ID, true)
	}
	channels, err := notify.OpenChannels(o.deps.Keyring, o.deps.Config.AlertSettings())
	if err != nil {
		panic(err)
	}
	o.notifier.sendDigest(ctx, channels, parts, done)
	for _, p := range parts {
		o.recordUntil(ctx, p.alert.ID, p.notice.ID, func(n *alerting.AlertNotice) {
			n.PendingTargets = slices.DeleteFunc(n.PendingTargets, func(to string) bool { return isMail(to) && done[to] })
		})
		o.mark(p.notice.ID, false)
	}
	o.changeBudget(context.WithoutCancel(ctx), func(b *alerting.AlertBudget, _ time.Time) bool {
		ours := b.Holder == o.cfg.Node
		if ours {
			b.Holder, b.HeldUntil = "", time.Time{}
		}
		return ours
	})
}

// While nodes of 0.1.0 and of this version send notices side by side, each reads the records of the other: what is true
// of nodes of one version stays true.
func TestEveryAlertIsAnnouncedDuringAnUpgrade(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				versions := map[bool]func(context.Context, *rig){
					true: runEarlier, false: func(ctx context.Context, r *rig) { _ = r.notifier.run(ctx) },
				}
				for _, name := range []string{"a", "earlier-b", "earlier-c"} {
					w.start(name, versions[isEarlier(name)])
				}
				alerts, pause := 4+w.rand.IntN(20), 2+w.rand.IntN(40)
				for range 150 {
					switch what := w.rand.IntN(20); {
					case what < 12:
						writer := w.pick()
						w.announce(w.rand.IntN(alerts), func(n *alerting.AlertNotice) {
							if isEarlier(writer) {
								n.LeaseNode = writer
							}
						})
					case what < 16:
						w.step()
					default:
						name := w.pick()
						w.end(name, what < 18)
						time.Sleep(time.Duration(w.rand.IntN(2)) * time.Duration(w.rand.IntN(60)) * time.Second)
						if isEarlier(name) { // an upgrade, or the way back; the name may stay
							name = strings.TrimPrefix(name, "earlier-")
						} else {
							name = "earlier-" + name
						}
						w.start(name, versions[isEarlier(name)])
					}
					time.Sleep(time.Duration(w.rand.Int64N(int64(pause) * int64(time.Second))))
				}
				w.settle()
				w.check()
			})
		})
	}
}

func isEarlier(name string) bool { return strings.HasPrefix(name, "earlier-") }

// A node of 0.1.0 has left a notice, and is gone. What fails for one target delays no other: the mail, which waits for
// a digest, is sent while Slack refuses the notice.
func TestNoticeOfAGoneNodeIsSentApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.modes[notify.Slack] = refuses
		w.announce(0, func(n *alerting.AlertNotice) { n.LeaseNode = "earlier-a" })
		rigOn(t, "b", w.keys, w.config, &fakeSender{}).spendBudget()
		w.start("b", func(ctx context.Context, r *rig) { _ = r.notifier.run(ctx) })
		time.Sleep(digestDelay + 3*time.Second)
		w.mu.Lock()
		mails := len(w.got["n0 "+mailTarget+"a@example.com"])
		w.mu.Unlock()
		is.Equal(t, mails, 1, "mails")
		w.settle()
		w.check()
	})
}
