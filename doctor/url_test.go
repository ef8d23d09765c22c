package doctor

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/command"
)

// A public address without TLS is warned of, one that only this machine or network knows is not.
func TestBaseURL(t *testing.T) {
	for base, want := range map[string]string{
		"https://relay.example.com": command.StateOK, "http://localhost:8080": command.StateOK, "http://127.0.0.1:8080": command.StateOK,
		"http://[::1]:8080": command.StateOK, "http://10.0.0.7": command.StateOK, "http://[fd00::1]": command.StateOK, "http://relay:8080": command.StateOK,
		"http://relay.svc.cluster.local": command.StateOK, "http://relay.internal.": command.StateOK, "http://app.localhost": command.StateOK,
		"http://relay.example.com": command.StateWarn, "http://203.0.113.9": command.StateWarn, "http://[2001:db8::1]:8080": command.StateWarn,
		"HTTP://Relay.Example.Com.": command.StateWarn, "http://localhost.example.com": command.StateWarn,
	} {
		x := &examination{Patient: Patient{BaseURL: base}}
		if c := x.baseURL(t.Context()); c.State != want || (c.Advice != "") != (want == command.StateWarn) {
			t.Errorf("%s: %+v, want %s", base, c, want)
		}
	}
}

// A key that is easy to guess is warned of by its setting; where there is none nothing is said.
func TestWeakKeys(t *testing.T) {
	x := &examination{Patient: Patient{WeakKeys: []string{"RELAY_BOOTSTRAP_KEY"}}}
	c := x.weakKeys(t.Context())
	if c.State != command.StateWarn || c.Advice == "" || !strings.Contains(c.Text, "RELAY_BOOTSTRAP_KEY") {
		t.Errorf("%+v", c)
	}
}
