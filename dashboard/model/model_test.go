package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The page has every rule and every setting of the API.
func TestAlertRulesAreThoseOfTheAPI(t *testing.T) {
	text := must.Get(json.Marshal(alerting.DefaultAlertRules()))(t)
	var want map[string]map[string]any
	must.Do(t, json.Unmarshal(text, &want))
	for i := range AlertRules {
		r := &AlertRules[i]
		members := want[r.Name]
		if delete(want, r.Name); len(members) != 1+len(r.Members) {
			t.Errorf("the rule %s has %v", r.Name, members)
		}
		for _, m := range r.Members {
			if members[m.Name] == nil {
				t.Errorf("the rule %s has no %s", r.Name, m.Name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("the page lacks the rules %v", want)
	}
	for _, k := range notify.Kinds() {
		if ChannelTexts[k.Kind].Title == "" {
			t.Errorf("the page lacks the channel %s", k.Kind)
		}
	}
}

// Destinations without names on one host differ by their paths.
func TestDestinationsOnOneHostDiffer(t *testing.T) {
	for address, want := range map[string]string{
		"https://a.example.com": "a.example.com", "https://a.example.com/": "a.example.com",
		"https://a.example.com/one?token=x":                 "a.example.com/one",
		"https://a.example.com/" + strings.Repeat("p", 100): "a.example.com/" + strings.Repeat("p", 43) + "…",
		"::": "dst_1",
	} {
		is.Equal(t, (&Destination{wire.Destination{ID: "dst_1", URL: address}}).Title(), want,
			"%s is shown as", address)
	}
}
