package alert

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Mail goes through the operator's server, so only 60 notices of an account are mailed one by one in an hour. A
// notice counts once, however many addresses it goes to. Further notices are not dropped: they stay in the
// configuration log and are sent as a digest, one mail that lists them.
const (
	mailWindow  = time.Hour
	maxMails    = 60 // mails with one notice each in a window, on all nodes together
	digestEvery = 10 * time.Minute
	// minimum age of the oldest notice of a digest, so that alerts that fire together are in one digest
	digestDelay    = time.Minute
	maxDigestLines = 200 // further notices are only counted
	// digestLease is how long a node may send a digest alone. Meanwhile no notice gets a mail of its own.
	digestLease = 2 * time.Minute
)

func isMail(target string) bool { return strings.HasPrefix(target, mailTarget) }

// mailBudget returns the budget of mails; nil if no mail was sent lately.
func (nf *notifier) mailBudget() *config.AlertBudget {
	if a := nf.deps.Config.Alert(config.AlertMailBudget); a != nil {
		return a.Budget
	}
	return nil
}

// hasOwnMail reports whether a notice was given a mail of its own within the window. All retries of the notice use it.
func hasOwnMail(b *config.AlertBudget, notice string, now time.Time) bool {
	return slices.ContainsFunc(b.SentWithin(now, mailWindow), func(s config.AlertSent) bool { return s.ID == notice })
}

// isBudgetSpent reports whether maxMails notices got a mail of their own within the window.
func isBudgetSpent(b *config.AlertBudget, now time.Time) bool {
	return len(b.SentWithin(now, mailWindow)) >= maxMails
}

// mayMailNow reports whether a notice has a mail of its own, or may get one.
func mayMailNow(b *config.AlertBudget, notice string, now time.Time) bool {
	return hasOwnMail(b, notice, now) || !isBudgetSpent(b, now) && !b.Held(now)
}

// reserveMail gives a notice a mail of its own by a conditional record, so that all nodes share one limit.
func (nf *notifier) reserveMail(ctx context.Context, notice string) bool {
	reserved := false
	_, err := nf.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			now := nf.deps.Now().UTC()
			reserved = mayMailNow(b, notice, now)
			if !reserved || hasOwnMail(b, notice, now) {
				return config.ErrAlertUnchanged
			}
			b.RecordSent(config.AlertSent{ID: notice, At: now})
			return nil
		})
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot reserve a mail for an alert notice", slog.Any("error", err))
	}
	return reserved && err == nil
}

// waitingNotice is a notice that waits for a digest, with the mail addresses that wait for it.
type waitingNotice struct {
	alert  *config.Alert
	notice config.AlertNotice
	to     []string
}

// waitingNotices returns the notices without a mail of their own, oldest first. If an earlier notice of the alert
// still has a mail of its own to an address, later ones do not go to that address yet: "resolved" never arrives
// before "firing".
func (nf *notifier) waitingNotices(b *config.AlertBudget, now time.Time) (all []waitingNotice) {
	for _, x := range nf.deps.Notices.AlertsWithNotices(nil) {
		var kept []string
		for _, n := range x.Notices {
			if gathers(n) && now.Before(n.NextAt) {
				continue
			}
			to := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool {
				return !isMail(to) ||
					slices.Contains(kept, to)
			})
			if hasOwnMail(b, n.ID, now) {
				kept = append(kept, to...)
			} else if len(to) > 0 {
				all = append(all, waitingNotice{x, n, to})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b waitingNotice) int { return a.notice.At.Compare(b.notice.At) })
	return all
}

// digestIsDue reports whether notices wait for a digest that may be sent now.
func (nf *notifier) digestIsDue() bool {
	now, b := nf.deps.Now(), nf.mailBudget()
	if !isBudgetSpent(b, now) || b.Held(now) || now.Before(b.NextAt) {
		return false
	}
	all := nf.waitingNotices(b, now)
	return len(all) > 0 && now.Sub(all[0].notice.At) >= digestDelay
}

// runDigest sends the waiting notices, one mail to each address, and removes the addresses from the notices. After a
// crash in between the next digest lists the notices again.
func (nf *notifier) runDigest(ctx context.Context) {
	all, release, ok := nf.leaseDigest(ctx)
	if !ok {
		return
	}
	defer release()
	channels, err := notify.OpenChannels(nf.deps.Keyring, nf.deps.Config.AlertSettings())
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot open alert channels", slog.Any("error", err))
		return
	}
	nf.mailDigest(ctx, channels, all)
	var records errgroup.Group
	records.SetLimit(channelSends)
	for alert, notices := range noticesByAlert(all) {
		records.Go(func() error {
			nf.recordDigest(ctx, alert, notices)
			return nil
		})
	}
	_ = records.Wait() // the functions return nil
}

// noticesByAlert groups the ids of notices by their alert.
func noticesByAlert(all []waitingNotice) map[string][]string {
	notices := map[string][]string{}
	for _, w := range all {
		notices[w.alert.ID] = append(notices[w.alert.ID], w.notice.ID)
	}
	return notices
}

// leaseDigest takes the lease of the digest, so that no other node sends one, and marks its notices as busy. A notice
// that is busy already waits for the next digest, and the later ones of its alert with it. release ends both.
func (nf *notifier) leaseDigest(ctx context.Context) (all []waitingNotice, release func(), ok bool) {
	var leased *config.AlertBudget
	_, err := nf.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			now := nf.deps.Now().UTC()
			if leased = nil; b.Held(now) || now.Before(b.NextAt) {
				return config.ErrAlertUnchanged // another node was first
			}
			b.Holder, b.HeldUntil, b.NextAt = nf.cfg.Node, now.Add(digestLease), now.Add(digestEvery)
			leased = b
			return nil
		})
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot take the lease of the alert digest", slog.Any("error", err))
	}
	if err != nil || leased == nil {
		return nil, nil, false
	}
	marked := map[string]bool{}
	for _, w := range nf.waitingNotices(leased, nf.deps.Now()) {
		if nf.markBusy(w.notice.ID) {
			marked[w.notice.ID] = true
		}
	}
	// Read again: a notice that was busy until now may have changed.
	waits := map[string]bool{} // alerts with an earlier notice that waits
	all = slices.DeleteFunc(nf.waitingNotices(leased, nf.deps.Now()), func(w waitingNotice) bool {
		waits[w.alert.ID] = waits[w.alert.ID] || !marked[w.notice.ID]
		return waits[w.alert.ID]
	})
	return all, func() {
		for notice := range marked {
			nf.clearBusy(notice)
		}
		nf.releaseDigest(ctx)
		nf.wakeUp() // other channels of these notices may have waited
	}, true
}

func (nf *notifier) releaseDigest(ctx context.Context) {
	ctx, cancel := recording(ctx)
	defer cancel()
	_, err := nf.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			if b.Holder != nf.cfg.Node {
				return config.ErrAlertUnchanged
			}
			b.Holder, b.HeldUntil = "", time.Time{}
			return nil
		})
	})
	if err != nil { // the lease expires by itself
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release the lease of the alert digest", slog.Any("error", err))
	}
}

// mailDigest sends each address the notices that wait for it. Addresses with the same notices share one message;
// usually all do.
func (nf *notifier) mailDigest(ctx context.Context, channels []notify.SavedChannel, all []waitingNotice) {
	groups, lists := map[string][]string{}, map[string][]waitingNotice{}
	for _, w := range all {
		for _, target := range w.to {
			if nf.isSettled(w.notice.ID, target) { // sent, but not recorded yet
				continue
			}
			address := strings.TrimPrefix(target, mailTarget)
			lists[address] = append(lists[address], w)
		}
	}
	for _, address := range slices.Sorted(maps.Keys(lists)) {
		var key strings.Builder
		for _, w := range lists[address] {
			key.WriteString(w.notice.ID)
		}
		groups[key.String()] = append(groups[key.String()], address)
	}
	var sends errgroup.Group
	for _, addresses := range groups {
		list := lists[addresses[0]]
		sends.Go(func() error {
			// The wait is short: each send ends within notify.Timeout, and a slot goes to whoever waits for it.
			slots := nf.channelSlots(string(notify.Email))
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			nf.sendMail(ctx, channels, addresses, nf.digestMessage(list), noticeIDs(list)...)
			<-slots
			nf.wakeUp() // notices may wait for the slot
			return nil
		})
	}
	_ = sends.Wait() // the functions return nil
	if len(groups) > 0 {
		nf.metrics.digests.Inc()
	}
}

func noticeIDs(list []waitingNotice) []string {
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.notice.ID
	}
	return ids
}

// sendMail sends a message to addresses and marks the notices that it contains as settled for those that received it.
// Addresses that were removed from the settings, or refused the mail for good, are settled too.
func (nf *notifier) sendMail(ctx context.Context, channels []notify.SavedChannel, addresses []string, m notify.Message,
	notices ...string) {
	done := func(address string) {
		for _, notice := range notices {
			nf.markSettled(notice, mailTarget+address)
		}
	}
	i := slices.IndexFunc(channels, func(c notify.SavedChannel) bool { return c.Kind == notify.Email && c.Enabled })
	c := notify.Channel{Kind: notify.Email}
	for _, address := range addresses {
		if i >= 0 && slices.Contains(channels[i].To, address) {
			c.To = append(c.To, address)
		} else {
			done(address)
		}
	}
	if len(c.To) == 0 {
		return
	}
	r := nf.sendOnce(ctx, c, m)
	if !r.OK && r.Undelivered == nil {
		return
	}
	for _, address := range c.To {
		later, undelivered := r.Undelivered[address]
		if undelivered && !later {
			nf.metrics.dropped.Inc()
		}
		if !later {
			done(address)
		}
	}
}

// recordDigest removes the settled addresses from the notices of an alert.
func (nf *notifier) recordDigest(ctx context.Context, alert string, notices []string) {
	ctx, cancel := recording(ctx)
	defer cancel()
	changed, err := nf.deps.Config.ChangeAlert(ctx, alert, func(x *config.Alert) error {
		now := nf.deps.Now().UTC()
		x.Notices = slices.DeleteFunc(x.Notices, func(n config.AlertNotice) bool {
			return slices.Contains(notices, n.ID) && len(nf.openTargets(&n, now)) == 0
		})
		for i := range x.Notices {
			if n := &x.Notices[i]; slices.Contains(notices, n.ID) {
				n.PendingTargets = nf.openTargets(n, now)
			}
		}
		return nil
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record the digest of an alert", slog.String("alert", alert),
			slog.Any("error", err))
		return // the addresses stay settled in memory; the next digest records them
	}
	nf.forgetSettled(changed, notices...)
}

// digestMessage lists notices, oldest first. It lists maxDigestLines of them and counts the others by headline.
func (nf *notifier) digestMessage(list []waitingNotice) notify.Message {
	const layout = "2006-01-02 15:04:05 UTC"
	since, count := list[0].notice.At.Format(layout), 0
	var lines strings.Builder
	more := map[string]int{}
	for i, w := range list {
		count += 1 + w.notice.Merged
		if i >= maxDigestLines {
			more[headline(w.alert, w.notice)] += 1 + w.notice.Merged
			continue
		}
		m := nf.message(w.alert, w.notice)
		fmt.Fprintf(&lines, "%s  %s", w.notice.At.Format(layout), web.SanitizeLine(m.Title))
		for _, f := range m.Facts {
			if f.Name == factDestination || f.Name == factEarlier {
				fmt.Fprintf(&lines, "; %s: %s", f.Name, web.SanitizeLine(f.Value))
			}
		}
		lines.WriteByte('\n')
	}
	m := notify.Message{
		ID: id.Random("alrt_"), Type: "alert.digest", At: nf.deps.Now().UTC(), Link: nf.cfg.BaseURL + "/app",
		Title: fmt.Sprintf("[Alert] %d alerts since %s", count, since),
		Text: fmt.Sprintf("The limit of %d alert mails an hour is reached. This digest lists the alerts that got no mail of "+
			"their own.\n\n%s", maxMails, lines.String()),
	}
	for _, text := range slices.Sorted(maps.Keys(more)) {
		m.Facts = append(m.Facts, notify.Fact{Name: fmt.Sprintf("And %d more", more[text]), Value: text})
	}
	return m
}
