package secrets_test

import (
	"encoding/json"
	"testing"

	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/must"
)

// Rules that are accepted compile, and find only what is in the text.
func FuzzCustom(f *testing.F) {
	f.Add([]byte(`[{"id":"custom:a","name":"A","prefixes":["abc_"],"charset":"hex","min":8,"max":40,"left":"word",`+
		`"right":"word","severity":"high"}]`), "key=abc_0123456789abcdef")
	f.Add([]byte(`[{"id":"custom:b","name":"B","prefixes":["x+y","x+yy"],"charset":"base64","min":8,"max":1024}]`), "x+y")
	base := must.Get(secrets.New(secrets.ForLeaks))(f)
	f.Fuzz(func(t *testing.T, text []byte, line string) {
		var rules []secrets.Custom
		if json.Unmarshal(text, &rules) != nil || secrets.ValidateCustom(rules) != nil {
			return
		}
		s, err := base.With(rules)
		must.Do(t, err, "%+v", rules)
		s.Scan([]byte(line), func(m secrets.Match) bool {
			if m.Start < 0 || m.End <= m.Start || m.End > len(line) {
				t.Fatalf("%q has a secret from %d to %d", line, m.Start, m.End)
			}
			return true
		})
	})
}
