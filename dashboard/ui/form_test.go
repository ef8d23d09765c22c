package ui

import (
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

func TestFieldSettingsAreKnown(t *testing.T) {
	if _, err := newField(nil, "name", "lable=Name"); err == nil {
		t.Error("a misspelled setting is accepted")
	}
	x, err := newChoice(NewForm(url.Values{"scope": {"read"}}, ""), "scope", []Option{{Value: "read"}, {Value: "write"}})
	if err != nil || !x.Options[0].Chosen || x.Options[1].Chosen {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err := newField(NewForm(url.Values{"password": {"secret"}}, ""), "password", "type=password"); err != nil ||
		x.Value != "" {
		t.Errorf("a password is shown again: %+v, %v", x, err)
	}
}

// A duration is entered and shown in its unit; what is none stays, for the API to refuse.
func TestDurationsOfFields(t *testing.T) {
	for text, want := range map[string]string{
		"12h": "43200", "1h30m": "5400", " 7d ": "604800", "90": "90", "0": "0", "5s": "5", "1d 2": "1d 2", "m": "m",
		"-5s": "-5s", "": "", "30m1h": "30m1h", "99999999999d": "99999999999d",
	} {
		is.Equal(t, SecondsOf(text), want, "%q is … seconds", text)
	}
	table := FieldTable{{NumberField, "a_seconds"}, {NumbersField, "b.seconds"}, {NumberField, "n"}}
	shown := table.Values(map[string]any{"a_seconds": 43200, "b": map[string]any{"seconds": []int{5, 90, 300}}, "n": 60})
	if shown.Get("a_seconds") != "12h" || shown.Get("b.seconds") != "5s, 90s, 5m" || shown.Get("n") != "60" {
		t.Errorf("shown as %v", shown)
	}
	same := url.Values{"a_seconds": {"43200"}, "b.seconds": {"5, 90, 300"}, "n": {"60"}}
	if body := table.Changes(NewForm(same, ""), shown); len(body) != 0 {
		t.Errorf("the same in seconds changes %v", body)
	}
	same.Set("b.seconds", "1m, x")
	body := strings.TrimSpace(string(web.Encode(table.Changes(NewForm(same, ""), shown))))
	is.Equal(t, body, `{"b":{"seconds":[60,"x"]}}`, "the change")
}
