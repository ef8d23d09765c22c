package endpoints

import (
	"testing"

	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/test/is"
)

func TestRetryPolicyAsTime(t *testing.T) {
	p := retry.Default()
	r := newRetryView(&p)
	is.Equal(t, r.Summary, "at once, 5\u00a0s, 5\u00a0min, …; gives up 3\u00a0d 3\u00a0h after the first attempt",
		"the summary is")
	if len(r.Steps) != 10 || r.Steps[4].Wait != "+2\u00a0h" || r.Steps[4].Since != "2\u00a0h 35\u00a0min" {
		t.Errorf("the steps are %+v", r.Steps)
	}
	p.MaxAttempts = 50
	if r := newRetryView(&p); len(r.Steps) != maxSteps || !r.Steps[9].Gap || r.Steps[9].Attempt != 40 ||
		r.Steps[10].Attempt != 50 {
		t.Errorf("the steps are %+v", r.Steps)
	}
	p.SetStrategy(retry.None)
	if r := newRetryView(&p); r.Summary != "one attempt at once, no retry" {
		t.Errorf("the summary is %q", r.Summary)
	}
}
