package alerting

import (
	"encoding/json"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// Settings that were stored before a rule existed have its default, and what somebody chose stays.
func TestSettingsWithoutANewRule(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]AlertAgeRule{
		`{"rules":{"usage":{"enabled":true}}}`:                              {true, 300},
		`{"rules":{"source_failing":{"enabled":false,"seconds":60}}}`:       {false, 60},
		`{"id":"acc_1","cooldown_seconds":7,"rules":{"source_failing":{}}}`: {true, 300},
	} {
		var s AlertSettings
		if must.Do(t, json.Unmarshal([]byte(stored), &s)); s.Rules.SourceFailing != want {
			t.Errorf("%s: %+v", stored, s.Rules.SourceFailing)
		}
	}
}
