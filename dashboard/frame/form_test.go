package frame

import (
	"net/url"
	"testing"
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
