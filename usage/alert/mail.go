package alert

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Mail goes through the operator's server, so only 60 notices of an account are mailed one by one in an hour. A
// notice counts once, however many addresses it goes to. Further notices are not dropped: they stay in the
// configuration log and are sent as a digest, one mail that lists them.
const (
	mailWindow  = time.Hour
	maxMails    = 60 // mails with one notice each in a window
	digestEvery = 10 * time.Minute
	// minimum age of the oldest notice of a digest, so that alerts that fire together are in one digest
	digestDelay    = time.Minute
	maxDigestLines = 200 // further notices are only counted
)

func isMail(target string) bool { return strings.HasPrefix(target, mailTarget) }

// mailBudget returns the budget of mails; nil if it has not changed for 25 hours.
func (nf *notifier) mailBudget() *alerting.AlertBudget {
	if a := nf.deps.Config.Alert(alerting.AlertMailBudget); a != nil {
		return a.Budget
	}
	return nil
}

// changeBudget changes the budget of mails by a conditional record, unless alter returns false. It reports whether it
// was changed.
func (nf *notifier) changeBudget(ctx context.Context, alter func(b *alerting.AlertBudget, now time.Time) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	changed, err := nf.deps.Config.ChangeAlert(ctx, alerting.AlertMailBudget, func(x *alerting.Alert) error {
		return x.ChangeBudget(func(b *alerting.AlertBudget) error {
			if !alter(b, nf.deps.Now().UTC()) {
				return alerting.ErrAlertUnchanged
			}
			return nil
		})
	})
	if err != nil {
		nf.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot change the budget of alert mails", slog.Any("error", err))
	}
	return err == nil && changed != nil
}

// hasOwnMail reports whether a notice was given a mail of its own within the window. All retries of the notice use it.
func hasOwnMail(b *alerting.AlertBudget, notice string, now time.Time) bool {
	return slices.ContainsFunc(b.SentWithin(now, mailWindow), func(s alerting.AlertSent) bool { return s.ID == notice })
}

// isBudgetSpent reports whether maxMails notices got a mail of their own within the window.
func isBudgetSpent(b *alerting.AlertBudget, now time.Time) bool {
	return len(b.SentWithin(now, mailWindow)) >= maxMails
}

// reserveMail gives a notice a mail of its own, or begins a digest. It returns false if the budget does not allow it.
func (nf *notifier) reserveMail(ctx context.Context, r request) bool {
	notice := r.parts[0].notice.ID
	if !r.digest && hasOwnMail(nf.mailBudget(), notice, nf.deps.Now()) {
		return true
	}
	return nf.changeBudget(ctx, func(b *alerting.AlertBudget, now time.Time) bool {
		switch {
		case r.digest && now.Before(b.NextAt), !r.digest && isBudgetSpent(b, now):
			return false
		case r.digest:
			b.NextAt = now.Add(digestEvery)
		default:
			b.RecordSent(alerting.AlertSent{ID: notice, At: now})
		}
		return true
	})
}

// sendDigest sends each address a digest of the notices that are pending for it. Addresses with the same notices share
// one message; usually all do.
func (nf *notifier) sendDigest(ctx context.Context, channels []notify.SavedChannel, parts []part,
	done map[string]bool) {
	lists, groups := map[string][]part{}, map[string][]string{}
	for _, p := range parts {
		for _, to := range p.to {
			lists[to] = append(lists[to], p)
		}
	}
	for _, to := range slices.Sorted(maps.Keys(lists)) {
		var key strings.Builder
		for _, p := range lists[to] {
			key.WriteString(p.notice.ID)
		}
		groups[key.String()] = append(groups[key.String()], to)
	}
	for _, targets := range groups {
		nf.send(ctx, channels, targets, nf.digestMessage(lists[targets[0]]), done)
	}
	nf.metrics.digests.Inc()
}

// digestMessage lists notices, oldest first. It lists maxDigestLines of them and counts the others by headline.
func (nf *notifier) digestMessage(list []part) notify.Message {
	const layout = "2006-01-02 15:04:05 UTC"
	since, count := list[0].notice.At.Format(layout), 0
	var lines strings.Builder
	more := map[string]int{}
	for i, p := range list {
		count += 1 + p.notice.Merged
		if i >= maxDigestLines {
			more[headline(p.alert, p.notice)] += 1 + p.notice.Merged
			continue
		}
		m := nf.message(p.alert, p.notice)
		fmt.Fprintf(&lines, "%s  %s", p.notice.At.Format(layout), web.SanitizeLine(m.Title))
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
