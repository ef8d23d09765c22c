package endpoints

import (
	"strconv"
	"strings"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
)

// retryStep is one attempt in a retry policy.
type retryStep struct {
	Attempt int
	Wait    string // after the attempt before it; "at once" for the first
	Since   string // after the first attempt
	Gap     bool   // it stands for the attempts that are left out before the last
}

// retryView shows a retry policy as time.
type retryView struct {
	Steps   []retryStep
	Summary string
	Hint    string
}

// maxSteps is how many attempts a retry policy shows.
const maxSteps = 11

func newRetryView(p *config.RetryPolicy) retryView {
	n, since := p.Attempts(), 0.0
	all := []retryStep{{Attempt: 1, Wait: "at once"}}
	for failed := 1; failed < n; failed++ {
		delay := p.DelaySeconds(failed)
		since += delay
		all = append(all, retryStep{Attempt: failed + 1, Wait: "+" + frame.DurationText(delay),
			Since: frame.DurationText(since)})
	}
	r := retryView{Steps: all}
	if len(all) > maxSteps {
		r.Steps = append(all[:maxSteps-2:maxSteps-2], retryStep{Gap: true, Attempt: n - maxSteps + 1}, all[n-1])
	}
	if n == 1 {
		r.Summary = "one attempt at once, no retry"
		r.Hint = "A delivery that fails is not repeated. You can replay its event."
		return r
	}
	r.Summary = "at once"
	for _, s := range all[1:min(3, n)] {
		r.Summary += ", " + s.Wait[1:]
	}
	if n > 3 {
		r.Summary += ", …"
	}
	r.Summary += "; gives up " + frame.DurationText(since) + " after the first attempt"
	r.Hint = retryHint(p)
	return r
}

func retryHint(p *config.RetryPolicy) string {
	hint := "Retried: network errors, timeouts, 408, 409, 425, 429 and every 5xx"
	if len(p.RetryOn) > 0 {
		hint += "; further " + strings.Join(p.RetryOn, ", ")
	}
	hint += ". 410 ends the delivery."
	if p.Jitter > 0 {
		percent := strconv.FormatFloat(p.Jitter*100, 'f', -1, 64)
		hint += " Each wait varies by up to " + percent + "\u00a0% (jitter)."
	}
	if p.RespectRetryAfter {
		hint += " A longer Retry-After is respected up to " + frame.DurationText(float64(p.MaxRetryAfterSeconds)) + "."
	} else {
		hint += " Retry-After is ignored."
	}
	return hint
}
