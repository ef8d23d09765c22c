package personal_test

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/personal"
	"github.com/eventrelay/relay/test/is"
)

func TestScan(t *testing.T) {
	for text, want := range map[string]string{
		"":         "",
		"a@b.de":   "email a@b.de",
		"nobody@":  "",
		"@acme.io": "",
		"write to Jane.Doe+x@mail.acme.co.uk, or call": "email Jane.Doe+x@mail.acme.co.uk",
		"<jörg@müller.de>":                             "email jörg@müller.de",
		"/u/jane%40acme.io/x":                          "email /u/jane%40acme.io",
		"jane@acme.io.":                                "email jane@acme.io",
		"a@b.io c@d.io":                                "email a@b.io; email c@d.io",
		"jane@example.com a@b.test":                    "",
		"jane@myexample.com":                           "email jane@myexample.com",
		"jane@localhost x@1.2":                         "",
		"+4915112345678":                               "phone +4915112345678",
		"tel:+1 (415) 555-2671.":                       "phone +1 (415) 555-2671",
		"+44 20 7946 0958 or +1":                       "phone +44 20 7946 0958",
		"1+14155552671 +0123456789":                    "",
		"+1234567 +1234567890123456":                   "",
		"4111111111111111":                             "card 4111111111111111",
		"4111111111111112":                             "",
		"x 4111 1111 1111 1111 12/27":                  "card 4111 1111 1111 1111",
		"3782-822463-10005":                            "card 3782-822463-10005",
		"5555555555554444,6011111111111117":            "card 5555555555554444; card 6011111111111117",
		"a4111111111111111 0.4111111111111111":         "",
		"41111111111111111":                            "",
		"1700000000000 20260821222436123":              "",
		"DE89370400440532013000":                       "iban DE89370400440532013000",
		"IBAN DE89 3704 0044 0532 0130 00 and":         "iban DE89 3704 0044 0532 0130 00",
		"gb82-west-1234-5698-7654-32":                  "iban gb82-west-1234-5698-7654-32",
		"DE89370400440532013001":                       "",
		"XX89370400440532013000":                       "",
		"DE893704004405320130001":                      "",
		"from 93.184.215.14:443":                       "ip 93.184.215.14",
		"[2a00:1450:4001:80b::200e]":                   "ip 2a00:1450:4001:80b::200e",
		"10.1.2.3.":                                    "ip 10.1.2.3",
		"192.0.2.7 127.0.0.1 ::1 2001:db8::5":          "",
		"1.2.3 1.2.3.4.5 12:30:45 v1.2.3.400":          "",
		"abc::def facade 2026-08-21T22:24:36Z":         "ip abc::def",
	} {
		var got []string
		for _, m := range personal.Scan(text) {
			got = append(got, string(m.Kind)+" "+text[m.Start:m.End])
		}
		is.Equal(t, strings.Join(got, "; "), want, "%q: found", text)
	}
}

// Whatever the text is, matches lie within it, in order, and without overlaps.
func FuzzScan(f *testing.F) {
	f.Add("a@b.io +4915112345678 4111 1111 1111 1111 DE89 3704 0044 0532 0130 00 93.184.215.14")
	f.Add("%40%40@@++::::....")
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, m := range personal.Scan(text) {
			if m.Start < end || m.End <= m.Start || m.End > len(text) {
				t.Fatalf("%q: %v", text, m)
			}
			end = m.End
		}
	})
}

// A text of candidates that all fail takes no more than proportional time.
func BenchmarkScan(b *testing.B) {
	for name, part := range map[string]string{
		"prose": "The order was paid in time. ", "at": "@", "plus": "+1", "groups": "4111 ", "iban": "DE89 ",
		"dots": "1.", "colons": "a:",
	} {
		text := strings.Repeat(part, 256<<10/len(part))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				personal.Scan(text)
			}
		})
	}
}
