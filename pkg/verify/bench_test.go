package verify

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// BenchmarkCheck verifies a valid signature over 1 KB that the first secret made.
func BenchmarkCheck(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for _, scheme := range Types() {
		if !ByName(scheme).CanSign() || len(ByName(scheme).layout.paths) > 0 {
			continue
		}
		b.Run(scheme, func(b *testing.B) {
			c, r := signed(b, scheme, body)
			benchmark(b, c, r, "")
		})
	}
	b.Run("twilio-form", func(b *testing.B) {
		c, r := signed(b, Twilio, nil)
		r.URL = "https://relay.example.com/in/tok"
		for i := range 32 {
			r.Body = fmt.Appendf(r.Body, "&Parameter%02d=%%2Bvalue+of+thirty+b", i)
		}
		fields, _ := signedFields(r.Body)
		r.Header.Set("X-Twilio-Signature",
			string(base64SHA1().appendMAC(nil, c.Secrets[0], message{head: r.URL, body: fields})))
		benchmark(b, c, r, "")
	})
	b.Run("forged", func(b *testing.B) {
		c, r := signed(b, Stripe, body)
		c.Secrets = []string{"one", "two", "three"}
		benchmark(b, c, r, SignatureMismatch)
	})
}

func benchmark(b *testing.B, c Config, r Request, want Reason) {
	b.ReportAllocs()
	for b.Loop() {
		must.Equal(b, Check(c, r), want)
	}
}
