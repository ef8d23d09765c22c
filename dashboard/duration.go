package dashboard

import (
	"math"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
)

// durationText returns a number of seconds in its two largest units: 5 s, 5 min, 2 h 35 min, 3 d 3 h.
func durationText(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(math.Round(seconds*10)/10, 'f', -1, 64) + "\u00a0s"
	}
	left := int64(math.Round(seconds))
	if left >= 3600 {
		left = (left + 30) / 60 * 60 // seconds are not shown beside hours
	}
	var parts []string
	for _, u := range []struct {
		name    string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
		if n := left / u.seconds; n > 0 || len(parts) > 0 {
			if n > 0 {
				parts = append(parts, strconv.FormatInt(n, 10)+"\u00a0"+u.name)
			}
			left %= u.seconds
			if len(parts) == 2 || n == 0 {
				break
			}
		}
	}
	return strings.Join(parts, " ")
}

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
		all = append(all, retryStep{Attempt: failed + 1, Wait: "+" + durationText(delay), Since: durationText(since)})
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
	r.Summary += "; gives up " + durationText(since) + " after the first attempt"
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
		hint += " A longer Retry-After is respected up to " + durationText(float64(p.MaxRetryAfterSeconds)) + "."
	} else {
		hint += " Retry-After is ignored."
	}
	return hint
}
