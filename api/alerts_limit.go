package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of alert tests, of an account and on all nodes together: recipients are whom a key names, unasked, and the
// mail comes from the operator's server.
const (
	testWindow     = time.Minute
	maxTests       = 6 // in a window
	testMailWindow = time.Hour
	maxTestMails   = 20 // in a window; every recipient is one
	// testLease is how long a test may run before another may begin although nobody said that it ended.
	testLease = notify.Timeout + 5*time.Second
	// testEndTimeout bounds the wait for the log to take that a test has ended.
	testEndTimeout = 2 * time.Second
)

// startAlertTest takes the account's turn for a test that sends so many mails, or answers 429. It is taken by a
// conditional record of the configuration log, so that all nodes share the limits and a restart does not end them.
func (a *alerts) startAlertTest(ctx context.Context, mails int) (end func(), err error) {
	holder := id.Random("")
	var refused error
	_, err = a.config.ChangeAlert(ctx, config.AlertTestBudget, func(x *config.Alert) error {
		return x.ChangeBudget(func(b *config.AlertBudget) error {
			now := a.now().UTC()
			if refused = testRefusal(b, now, mails); refused != nil {
				return config.ErrAlertUnchanged
			}
			b.RecordSent(config.AlertSent{At: now, Mails: mails})
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
		// Without this record the turn ends by itself.
		_, _ = a.config.ChangeAlert(ctx, config.AlertTestBudget, func(x *config.Alert) error {
			return x.ChangeBudget(func(b *config.AlertBudget) error {
				if b.Holder != holder {
					return config.ErrAlertUnchanged
				}
				b.Holder, b.HeldUntil = "", time.Time{}
				return nil
			})
		})
	}, nil
}

// testRefusal says why there can be no test now, nil if there can.
func testRefusal(b *config.AlertBudget, now time.Time, mails int) error {
	if b.Held(now) {
		return tooManyTests(b.HeldUntil.Sub(now), "another test is running; one is sent at a time")
	}
	if tests := b.SentWithin(now, testWindow); len(tests) >= maxTests {
		return tooManyTests(tests[len(tests)-maxTests].At.Add(testWindow).Sub(now),
			fmt.Sprintf("at most %d tests a minute", maxTests))
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
	for _, s := range sent { // the oldest go first
		if over -= s.Mails; over <= 0 {
			until = s.At.Add(testMailWindow)
			break
		}
	}
	return tooManyTests(until.Sub(now),
		fmt.Sprintf("tests send %d mails an hour, and every recipient gets one; disable channels.email to test the others",
			maxTestMails))
}

func tooManyTests(wait time.Duration, why string) error {
	seconds := int(math.Ceil(wait.Seconds()))
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("%s; nothing was sent; try again in %d s", why, max(seconds, 1))}
}

// countMails is how many mails a message down these channels is.
func countMails(saved []notify.SavedChannel) (n int) {
	for _, c := range saved {
		if c.Enabled {
			n += len(c.To)
		}
	}
	return n
}
