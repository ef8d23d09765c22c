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

// Mail leaves through the operator's server, so an account has a number of messages an hour. What is beyond it is not
// dropped: it stays in the configuration log, and is sent as a digest, one mail that lists what happened.
const (
	mailWindow     = time.Hour
	maxMails       = 60 // messages of their own in a window, on all nodes together
	digestEvery    = 10 * time.Minute
	digestDelay    = time.Minute // that the oldest of a digest has waited: what comes together is told together
	maxDigestLines = 200         // the rest is counted
	// digestHeld is how long a node has for a digest; until then no message gets a mail of its own.
	digestHeld = 2 * time.Minute
)

func isMail(target string) bool { return strings.HasPrefix(target, mailTarget) }

// mailBudget is what was mailed lately, nil for nothing.
func (h *herald) mailBudget() *config.AlertBudget {
	if a := h.deps.Config.Alert(config.AlertMailBudget); a != nil {
		return a.Budget
	}
	return nil
}

// hasSlot reports whether a message was given a mail of its own lately; then it keeps it, however often it is tried.
func hasSlot(b *config.AlertBudget, notice string, now time.Time) bool {
	return slices.ContainsFunc(b.SentWithin(now, mailWindow), func(s config.AlertSent) bool { return s.ID == notice })
}

// isFull reports whether there are as many mails as there may be.
func isFull(b *config.AlertBudget, now time.Time) bool {
	return len(b.SentWithin(now, mailWindow)) >= maxMails
}

// mayMail reports whether a message has a mail of its own, or may have one.
func mayMail(b *config.AlertBudget, notice string, now time.Time) bool {
	return hasSlot(b, notice, now) || !isFull(b, now) && !b.Held(now)
}

// takeSlot gives the message a mail of its own, by a conditional record, so that all nodes share the number.
func (h *herald) takeSlot(ctx context.Context, notice string) bool {
	taken := false
	_, err := h.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			now := h.deps.Now().UTC()
			taken = mayMail(b, notice, now)
			if !taken || hasSlot(b, notice, now) {
				return config.ErrAlertUnchanged
			}
			b.RecordSent(config.AlertSent{ID: notice, At: now})
			return nil
		})
	})
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot count an alert mail", slog.Any("error", err))
	}
	return taken && err == nil
}

// waiting is a message that waits for a digest, to those addresses.
type waiting struct {
	alert  *config.Alert
	notice config.AlertNotice
	to     []string
}

// waitingMail are the messages without a mail of their own, the oldest first. A message before it that has one keeps
// its addresses: nobody hears of an end before the beginning.
func (h *herald) waitingMail(b *config.AlertBudget, now time.Time) (all []waiting) {
	for _, x := range h.deps.Config.Alerts(func(x *config.Alert) bool { return len(x.Notices) > 0 }) {
		var kept []string
		for _, n := range x.Notices {
			to := slices.DeleteFunc(slices.Clone(n.PendingTargets), func(to string) bool {
				return !isMail(to) ||
					slices.Contains(kept, to)
			})
			if hasSlot(b, n.ID, now) {
				kept = append(kept, to...)
			} else if len(to) > 0 {
				all = append(all, waiting{x, n, to})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int { return a.notice.At.Compare(b.notice.At) })
	return all
}

// digestIsDue reports whether messages wait for a digest that may be sent now.
func (h *herald) digestIsDue() bool {
	now, b := h.deps.Now(), h.mailBudget()
	if !isFull(b, now) || b.Held(now) || now.Before(b.NextAt) {
		return false
	}
	all := h.waitingMail(b, now)
	return len(all) > 0 && now.Sub(all[0].notice.At) >= digestDelay
}

// digest sends what waits, one mail to each address, and takes the addresses off the messages. Killed before that, the
// next digest lists them again.
func (h *herald) digest(ctx context.Context) {
	all, end, ok := h.claimDigest(ctx)
	if !ok {
		return
	}
	defer end()
	channels, err := notify.OpenChannels(h.deps.Keyring, h.deps.Config.AlertSettings())
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot open the channels of alerts", slog.Any("error", err))
		return
	}
	h.sendDigest(ctx, channels, all)
	var records errgroup.Group
	records.SetLimit(maxHeralds)
	for alert, notices := range noticesOf(all) {
		records.Go(func() error {
			h.recordDigest(ctx, alert, notices)
			return nil
		})
	}
	_ = records.Wait() // they return nil
}

// noticesOf are the messages by their alerts.
func noticesOf(all []waiting) map[string][]string {
	notices := map[string][]string{}
	for _, w := range all {
		notices[w.alert.ID] = append(notices[w.alert.ID], w.notice.ID)
	}
	return notices
}

// claimDigest makes sure that no other node sends a digest, or one of its messages, and marks their alerts as busy.
// Alerts that are busy already wait for the next digest.
func (h *herald) claimDigest(ctx context.Context) (all []waiting, end func(), ok bool) {
	var claimed *config.AlertBudget
	_, err := h.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			now := h.deps.Now().UTC()
			if claimed = nil; b.Held(now) || now.Before(b.NextAt) {
				return config.ErrAlertUnchanged // another node was first
			}
			b.Holder, b.HeldUntil, b.NextAt = h.cfg.Node, now.Add(digestHeld), now.Add(digestEvery)
			claimed = b
			return nil
		})
	})
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot claim the digest of alerts", slog.Any("error", err))
	}
	if err != nil || claimed == nil {
		return nil, nil, false
	}
	begun := map[string]bool{}
	for alert := range noticesOf(h.waitingMail(claimed, h.deps.Now())) {
		if h.begin(alert) {
			begun[alert] = true
		}
	}
	// What was busy until a moment ago may have changed.
	all = slices.DeleteFunc(h.waitingMail(claimed, h.deps.Now()), func(w waiting) bool { return !begun[w.alert.ID] })
	return all, func() {
		for alert := range begun {
			h.end(alert)
		}
		h.releaseDigest(ctx)
		h.look() // other channels of these alerts may have waited
	}, true
}

func (h *herald) releaseDigest(ctx context.Context) {
	_, err := h.deps.Config.ChangeAlert(ctx, config.AlertMailBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			if b.Holder != h.cfg.Node {
				return config.ErrAlertUnchanged
			}
			b.Holder, b.HeldUntil = "", time.Time{}
			return nil
		})
	})
	if err != nil { // it ends by itself
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release the digest of alerts", slog.Any("error", err))
	}
}

// sendDigest sends each address what waits for it: nearly always that is the same for all, and one message.
func (h *herald) sendDigest(ctx context.Context, channels []notify.SavedChannel, all []waiting) {
	groups, lists := map[string][]string{}, map[string][]waiting{}
	for _, w := range all {
		for _, target := range w.to {
			if h.hasTaken(w.notice.ID, target) { // and the log does not say so yet
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
			h.mail(ctx, channels, addresses, h.digestMessage(list), idsOf(list)...)
			return nil
		})
	}
	_ = sends.Wait() // they return nil
	if len(groups) > 0 {
		h.metrics.digests.Inc()
	}
}

func idsOf(list []waiting) []string {
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.notice.ID
	}
	return ids
}

// mail sends a message to the addresses that are still saved and notes for the notices that it tells of which took
// it. Addresses that are no longer saved, or will never take it, count as if they had.
func (h *herald) mail(ctx context.Context, channels []notify.SavedChannel, addresses []string, m notify.Message,
	notices ...string) {
	done := func(address string) {
		for _, notice := range notices {
			h.note(notice, mailTarget+address)
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
	r := h.try(ctx, c, m)
	if !r.OK && r.Refused == nil {
		return
	}
	for _, address := range c.To {
		later, refused := r.Refused[address]
		if refused && !later {
			h.metrics.dropped.Inc()
		}
		if !later {
			done(address)
		}
	}
}

// recordDigest takes the addresses that have the digest off the messages of an alert.
func (h *herald) recordDigest(ctx context.Context, alert string, notices []string) {
	_, err := h.deps.Config.ChangeAlert(ctx, alert, func(x *config.Alert) error {
		now := h.deps.Now().UTC()
		x.Notices = slices.DeleteFunc(x.Notices, func(n config.AlertNotice) bool {
			return slices.Contains(notices, n.ID) && len(h.left(&n, now)) == 0
		})
		for i := range x.Notices {
			if n := &x.Notices[i]; slices.Contains(notices, n.ID) {
				n.PendingTargets = h.left(n, now)
			}
		}
		return nil
	})
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record the digest of an alert", slog.String("alert", alert),
			slog.Any("error", err))
		return // it is remembered who has it, and the next digest records it
	}
	h.forgetTaken(notices...)
}

// digestMessage lists messages, the oldest first, and counts by headline what is beyond its length.
func (h *herald) digestMessage(list []waiting) notify.Message {
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
		m := h.message(w.alert, w.notice)
		fmt.Fprintf(&lines, "%s  %s", w.notice.At.Format(layout), web.Line(m.Title))
		for _, f := range m.Facts {
			if f.Name == factDestination || f.Name == factEarlier {
				fmt.Fprintf(&lines, "; %s: %s", f.Name, web.Line(f.Value))
			}
		}
		lines.WriteByte('\n')
	}
	m := notify.Message{
		ID: id.Random("alrt_"), Type: "alert.digest", At: h.deps.Now().UTC(), Link: h.cfg.BaseURL + "/app",
		Title: fmt.Sprintf("[Alert] %d alerts since %s", count, since),
		Text: fmt.Sprintf("%d alert mails were sent within the last hour; what happened since comes in one.\n\n%s",
			maxMails, lines.String()),
	}
	for _, text := range slices.Sorted(maps.Keys(more)) {
		m.Facts = append(m.Facts, notify.Fact{Name: fmt.Sprintf("And %d more", more[text]), Value: text})
	}
	return m
}
