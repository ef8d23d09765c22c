package stream

import (
	"testing"
)

func TestSendsPasswordInClear(t *testing.T) {
	f := func(sasl, tls string, want bool) {
		if (Config{SASL: sasl, TLS: tls}).SendsPasswordInClear() != want {
			t.Errorf("%q with TLS %q: %v", sasl, tls, !want)
		}
	}
	f("plain:u:p", "", true)
	f("PLAIN:u:p", "", true)
	f("plain:u:p", "system", false)
	f("scram-sha-256:u:p", "", false)
	f("", "", false)
}
