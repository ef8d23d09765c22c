package retry

import (
	"encoding/json"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// SetStrategy keeps the common members and sets only the defaults of the new strategy. The members that a strategy
// names are the ones it uses.
func TestRetryStrategies(t *testing.T) {
	for _, s := range Strategies() {
		p := Default()
		p.MaxAttempts, p.Jitter = 7, 0.5
		p.SetStrategy(s.Name)
		if p.Strategy != s.Name || p.MaxAttempts != 7 || p.Jitter != 0.5 || len(p.RetryOn) != 2 || !p.RespectRetryAfter {
			t.Errorf("%s: %+v", s.Name, p)
		}
		for _, m := range s.Members {
			if fault := p.Validate(); fault != nil { // a member without a default
				switch at := m.Field(&p).(type) {
				case *int:
					*at = 1
				default:
					t.Errorf("%s: %v", s.Name, fault)
				}
			}
		}
		is.OK(t, p.Validate(), s.Name)
		var members map[string]any
		text := must.Get(json.Marshal(p))(t)
		must.Do(t, json.Unmarshal(text, &members))
		for _, m := range s.Members {
			if _, there := members[m.Name]; !there {
				t.Errorf("%s: the JSON has no %s: %s", s.Name, m.Name, text)
			}
		}
		if want := 6 + len(s.Members); len(members) != want { // strategy, max_attempts, jitter and three more
			t.Errorf("%s is stored with %d members, want %d: %s", s.Name, len(members), want, text)
		}
		if p.DelaySeconds(1) > 0 == (s.Name == None) {
			t.Errorf("%s waits %f s", s.Name, p.DelaySeconds(1))
		}
	}
	later := Policy{Strategy: "a later one", MaxAttempts: 3}
	usual := Default()
	for failed := range 12 {
		if got, want := later.DelaySeconds(failed+1), usual.DelaySeconds(failed+1); got != want || want < 5 {
			t.Errorf("a strategy that only newer versions know waits %v s after %d failures, want %v", got, failed+1, want)
		}
	}
	if later.Attempts() != 3 || later.Validate() == nil {
		t.Error("an unknown strategy was confused with another")
	}
	p := Default()
	p.ScheduleSeconds[0] = 77
	if Default().ScheduleSeconds[0] == 77 {
		t.Error("policies share the defaults")
	}
}
