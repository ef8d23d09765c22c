package doctor

import (
	"strings"
	"testing"
)

// A public address without TLS is a warning; an address of this machine or a private network is not.
func TestBaseURLWarnsOfPublicHTTP(t *testing.T) {
	for base, want := range map[string]string{
		"https://relay.example.com": StateOK, "http://localhost:8080": StateOK, "http://127.0.0.1:8080": StateOK,
		"http://[::1]:8080": StateOK, "http://10.0.0.7": StateOK, "http://[fd00::1]": StateOK, "http://relay:8080": StateOK,
		"http://relay.svc.cluster.local": StateOK, "http://relay.internal.": StateOK, "http://app.localhost": StateOK,
		"http://relay.example.com": StateWarn, "http://203.0.113.9": StateWarn, "http://[2001:db8::1]:8080": StateWarn,
		"HTTP://Relay.Example.Com.": StateWarn, "http://localhost.example.com": StateWarn,
	} {
		x := &checker{Target: Target{BaseURL: base}}
		if c := x.baseURL(t.Context()); c.State != want || (c.Advice != "") != (want == StateWarn) {
			t.Errorf("%s: %+v, want %s", base, c, want)
		}
	}
}

// A key that is easy to guess is a warning that names its setting.
func TestWeakKeysNameTheSetting(t *testing.T) {
	x := &checker{Target: Target{WeakKeys: []string{"RELAY_BOOTSTRAP_KEY"}}}
	c := x.weakKeys(t.Context())
	if c.State != StateWarn || c.Advice == "" || !strings.Contains(c.Text, "RELAY_BOOTSTRAP_KEY") {
		t.Errorf("%+v", c)
	}
}
