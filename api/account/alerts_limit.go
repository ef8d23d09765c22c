package account

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of alert tests, for an account on all nodes together. They exist because a key may name any recipient, and the
// mail comes from the operator's server.
const (
	testWindow     = time.Minute
	maxTests       = 6 // in a testWindow
	testMailWindow = time.Hour
	maxTestMails   = 20 // in a testMailWindow; each recipient counts as one
	// testLease is how long a test may run. After it the next test may start, even if no node recorded the end of
	// this one.
	testLease = notify.Timeout + 5*time.Second
	// testEndTimeout bounds the write that records the end of a test.
	testEndTimeout = 2 * time.Second
)

// startAlertTest claims the account's slot for a test that sends that many mails, or returns the 429. The claim is a
// conditional record in the configuration log, so that all nodes share the limits and a restart keeps them. The
// caller calls end when the test is over.
func (a *alerts) startAlertTest(ctx context.Context, mails int) (end func(), err error) {
	holder := id.Random("")
	var refused error
	_, err = a.Config.ChangeAlert(ctx, alerting.AlertTestBudget, func(x *alerting.Alert) error {
		return x.ChangeBudget(func(b *alerting.AlertBudget) error {
			now := a.Now().UTC()
			if refused = testRefusal(b, now, mails); refused != nil {
				return alerting.ErrAlertUnchanged
			}
			b.RecordSent(alerting.AlertSent{At: now, Mails: mails})
			b.Holder, b.HeldUntil = holder, now.Add(testLease)
			return nil
		})
	})
	if err := cmp.Or(refused, err); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), testEndTimeout)
		defer cancel()
		// Without this record the claim expires after testLease.
		_, _ = a.Config.ChangeAlert(ctx, alerting.AlertTestBudget, func(x *alerting.Alert) error {
			return x.ChangeBudget(func(b *alerting.AlertBudget) error {
				if b.Holder != holder {
					return alerting.ErrAlertUnchanged
				}
				b.Holder, b.HeldUntil = "", time.Time{}
				return nil
			})
		})
	}, nil
}

// testRefusal returns the 429 for a test that exceeds a limit now, or nil.
func testRefusal(b *alerting.AlertBudget, now time.Time, mails int) error {
	if b.Held(now) {
		return tooManyTests(b.HeldUntil.Sub(now), "another alert test is running; only one runs at a time")
	}
	if tests := b.SentWithin(now, testWindow); len(tests) >= maxTests {
		return tooManyTests(tests[len(tests)-maxTests].At.Add(testWindow).Sub(now),
			fmt.Sprintf("an account may run at most %d alert tests a minute", maxTests))
	}
	sent := b.SentWithin(now, testMailWindow)
	over := mails - maxTestMails
	for _, s := range sent {
		over += s.Mails
	}
	if over <= 0 || mails == 0 {
		return nil
	}
	var until time.Time
	for _, s := range sent { // oldest first: they leave the window first
		if over -= s.Mails; over <= 0 {
			until = s.At.Add(testMailWindow)
			break
		}
	}
	return tooManyTests(until.Sub(now),
		fmt.Sprintf("alert tests may send at most %d mails an hour, one to each recipient; disable channels.email to test "+
			"the other channels",
			maxTestMails))
}

func tooManyTests(wait time.Duration, why string) error {
	seconds := int(math.Ceil(wait.Seconds()))
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("%s; nothing was sent; try again in %d s", why, max(seconds, 1))}
}

// countMails returns how many mails a message to these channels causes.
func countMails(saved []notify.SavedChannel) (n int) {
	for _, c := range saved {
		if c.Enabled {
			n += len(c.To)
		}
	}
	return n
}
