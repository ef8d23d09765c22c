package config

import (
	"encoding/json"
	"testing"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
)

// A value of any kind that the configuration log or an import may hold is decoded, or refused, without a panic; what is
// decoded can be encoded, and decoded again.
func FuzzDecodeValue(f *testing.F) {
	for k := range byte(entity.NumKinds) {
		f.Add(k, []byte(`{"id":"x","account":"acc_1","hash":"`+hash44+`","name":"a","destinations":[{"id":"dst_1"}]}`))
		f.Add(k, []byte(`{"sealed":{"a":"b"},"scope":"","hash":null}`))
	}
	f.Fuzz(func(t *testing.T, n byte, text []byte) {
		k := entity.Kind(n) % entity.NumKinds
		if kindTable[k].Empty == nil {
			return
		}
		v, err := kindTable.Decode(k, text)
		if err != nil {
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Skip("a time or number that JSON cannot have")
		}
		if _, err := kindTable.Decode(k, again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

// hash44 is 32 bytes in base64.
const hash44 = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// An accepted origin is written in one way, and allows itself.
func FuzzParseOrigin(f *testing.F) {
	for _, text := range []string{
		"https://a.example:443", "HTTP://*.A.example/", "https://[::1]:8080", "https://a:b@c", "https://*."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		origin, err := leak.ParseOrigin(text)
		if err != nil {
			return
		}
		if again, err := leak.ParseOrigin(origin); err != nil || again != origin {
			t.Fatalf("%q is %q, and that is %q (%v)", text, origin, again, err)
		}
		if d := (&leak.DSN{AllowedOrigins: []string{origin}}); !d.AllowsOrigin(origin) {
			t.Fatalf("%q does not allow itself", origin)
		}
	})
}
