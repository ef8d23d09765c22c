package secrets

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/apikey"
)

// generator makes credentials of every rule. No file of the project contains one.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

// secret returns a credential of the rule, as long as its shortest or its longest.
func (g generator) secret(r *Rule, longest bool) string {
	switch {
	case r.Check == checkRelay:
		return apikey.New()
	case r.Check == checkTestKey:
		return apikey.NewTestKey()
	}
	switch r.Kind {
	case KindJWT:
		return g.jwt(r)
	case KindPEM:
		return g.pem(longest)
	case KindJWK:
		return g.jwk(longest)
	case KindURI:
		return g.prefix(r) + "://app:" + g.run(charsets["alnum"], 18) + "@db-1.internal:5432/orders"
	}
	var text strings.Builder
	if r.Lead.set != nil {
		lead := g.run(r.Lead.set, r.Lead.Max)
		if r.ID == "azure-client-secret" {
			lead = g.run(charsets["alnum"], 3) + "8"
		}
		text.WriteString(lead)
	}
	if r.Kind == KindToken {
		text.WriteString(g.prefix(r))
	}
	for _, p := range append([]part{r.part}, r.Then...) {
		n := p.Min
		if r.Generic {
			n = 24 // random characters, fewer of which do not always have the entropy
		}
		if longest {
			n = p.Max
		}
		run := []byte(p.Separator + g.run(p.set, n))
		if i := len(run) / 2; r.Contains != "" {
			copy(run[i:], r.Contains)
		}
		text.Write(run)
	}
	return text.String()
}

func (g generator) prefix(r *Rule) string {
	for {
		if p := r.Prefixes[g.IntN(len(r.Prefixes))]; !strings.ContainsAny(p, `\%`) {
			return p
		}
	}
}

// run returns n characters of a set, of which the classes that rules need come first.
func (g generator) run(set *charset, n int) string {
	out := make([]byte, 0, n)
	if set[','] || n < 4 {
		for range n {
			out = append(out, g.char(set, "09azAZ"))
		}
		return string(out)
	}
	for i := range n {
		out = append(out, g.char(set, []string{"az", "09", "AZ", "09azAZ"}[min(i, 3)]))
	}
	switch { // what is no letter or digit stands where encodings have it
	case set['/'] && set['+'] && !set['.']:
		out[n/2], out[n/3], out[n-1] = '/', '+', '='
	case set == charsets["uuid"]:
		out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	case set['_'] && n > 20:
		out[n/2] = '_'
	}
	return string(out)
}

// char returns a letter or digit of a set, of a range if it has any of that.
func (g generator) char(set *charset, ranges string) byte {
	key := drawKey{set, ranges}
	chars := drawn[key]
	if chars == nil {
		wanted := newCharset(ranges, "")
		for _, only := range []*charset{wanted, charsets["alnum"]} {
			for c := range set {
				if len(chars) < 62 && set[c] && charsets["alnum"][c] && only[c] {
					chars = append(chars, byte(c))
				}
			}
			if len(chars) > 0 {
				break
			}
		}
		drawn[key] = chars
	}
	return chars[g.IntN(len(chars))]
}

// drawn are the characters that a generator draws from.
var drawn = map[drawKey][]byte{}

type drawKey struct {
	set    *charset
	ranges string
}

func (g generator) jwt(r *Rule) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := map[string]any{"iss": "supabase", "ref": g.run(charsets["lower"], 20), "iat": 1700000000}
	for name, value := range r.Claim {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload) + "." + g.run(charsets["urlsafe"], 43)
}

// jwk returns a private JSON Web Key; place cuts its public members off.
func (g generator) jwk(longest bool) string {
	value := func(n int) string { return g.run(charsets["urlsafe"], n) }
	if longest {
		return fmt.Sprintf(`{"kty":"RSA","n":"%s","e":"AQAB","d":"%s","p":"%s","q":"%s","dp":"%s","dq":"%s","qi":"%s"}`,
			value(683), value(683), value(342), value(342), value(342), value(342), value(342))
	}
	return fmt.Sprintf(`{"crv":"Ed25519","d":"%s","x":"%s","kty":"OKP"}`, value(43), value(43))
}

func (g generator) pem(longest bool) string {
	label, lines := []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"}[g.IntN(4)], 3
	if longest {
		lines = 50
	}
	text := "-----BEGIN " + label + "-----\nMH"
	for i := range lines {
		text += g.run(charsets["alnum"], 28+2*min(i, 1)) + "+" + g.run(charsets["alnum"], 32) + "/\n"
	}
	return text + g.run(charsets["alnum"], 30) + "==\n-----END " + label + "-----"
}

// printed returns a text of several lines as printers of values write it.
func printed(text string) map[string]string {
	join := func(open, end, between string) string {
		return open + strings.ReplaceAll(text, "\n", `\n`+end+between+open) + end
	}
	node := "{ key: " + join("'", "'", " +\n    ") + " }"
	return map[string]string{
		"Node.js":                  node,
		"Node.js in colours":       "{ key: " + join("\x1b[32m'", "'\x1b[39m", " +\n    ") + " }",
		"Node.js, printed twice":   `{ a: "` + strings.ReplaceAll(inJSON(node), `\n `, "\\n\" +\n  \" ") + `" }`,
		"the diff of an assertion": "+   key: " + join("'", "'", " +\n+     "),
		"Python":                   "{'key': " + join("'", "'", "\n        ") + "}",
		"a list of lines":          `["` + strings.ReplaceAll(text, "\n", `","`) + `"]`,
		"a list, indented":         "[\n  '" + strings.ReplaceAll(text, "\n", "',\n  '") + "'\n]",
	}
}

// joined returns the lines of a text as terminals, documents and logs have them.
func joined(text string) map[string]string {
	each := func(before, after string) string {
		return before + strings.ReplaceAll(text, "\n", after+"\n"+before) + after
	}
	with := func(between string) string { return strings.ReplaceAll(text, "\n", between) }
	return map[string]string{
		"lines in colours": each("\x1b[1m\x1b[32m", "\x1b[39m\x1b[22m"),
		"a box":            each("│ ", " │"),
		"an ASCII box":     each("| ", " |"),
		"HTML":             "<p>" + with("<br>") + "</p>",
		"HTML, lines":      with("<br />\n"),
		"XML":              with("&#10;"),
		"U+2028":           with("\u2028"),
		"a shell":          with("\\\n"),
		"YAML":             `key: "` + with("\\n\\\n    ") + `"`,
		"a quotation":      each("> ", ""),
		"a log":            each("2026-11-29 [app] ", ""),
	}
}

// piece is a text with a credential: what is before it, the credential and what is behind it.
type piece struct{ before, secret, after string }

func (p piece) text() string { return p.before + p.secret + p.after }

// contexts are assignments as programs write them. NAME is a name.
var contexts = []struct{ name, before, after string }{
	{"environment", "NAME=", "\nPATH=/bin"},
	{"shell", `export NAME="`, "\"\n"},
	{"JSON", `{"NAME":"`, `","n":1}`},
	{"JSON with spaces", `{ "NAME" : "`, `" }`},
	{"YAML", "a: 1\nNAME: ", "\nb: 2"},
	{"Python", `{'NAME': '`, `', 'b': 2}`},
	{"logfmt", "level=info NAME=", " took=3ms"},
	{"header", "> NAME: ", "\r\n> Accept: */*"},
	{"query", "GET /a?NAME=", "&y=2 HTTP/1.1"},
	{"Go struct", "{Name:a NAME:", "}"},
	{"Ruby", `{:NAME=>"`, `", :b=>2}`},
	{"XML", "<NAME>", "</NAME>"},
	{"TOML", "NAME = \"", "\"\n"},
	{"function", "connect(NAME='", "')"},
	{"end", "NAME=", ""},
	{"flag", "run --NAME ", " --verbose"},
	{"flag with equals sign", "run --NAME=", " --verbose"},
	{"coloured name", "\x1b[36mNAME\x1b[0m=", " next=1"},
	{"coloured value", "NAME=\x1b[1;32m", "\x1b[0m done"},
}

// wrappers are encodings around a log line. Each encodes every character by itself.
var wrappers = []struct {
	name   string
	encode func(string) string
}{
	{"plain", func(s string) string { return s }},
	{"JSON", inJSON},
	{"JSON in JSON", repeated(inJSON, 2)},
	{"JSON in JSON in JSON", repeated(inJSON, 3)},
	{"JSON with escaped slashes", inSlashedJSON},
	{"JSON with escaped slashes, twice", repeated(inSlashedJSON, 2)},
	{"JSON of ASCII letters", func(s string) string { return escapeAll(s, `\u%04x`, "\"'<>&=\n\r\x1b") }},
	{"Go string", func(s string) string { return strconv.Quote(s)[1 : len(strconv.Quote(s))-1] }},
	{"syslog", func(s string) string { return escapeAll(s, "#%03o", "\n\r\x1b") }},
	{"HTML", html.EscapeString},
	{"URL", url.QueryEscape},
	{"URL in URL", repeated(url.QueryEscape, 2)},
}

func repeated(encode func(string) string, n int) func(string) string {
	return func(s string) string {
		for range n {
			s = encode(s)
		}
		return s
	}
}

func inJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text[1 : len(text)-1])
}

func inSlashedJSON(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) }

func escapeAll(s, format, chars string) string {
	for _, c := range []byte(chars) {
		s = strings.ReplaceAll(s, string(c), fmt.Sprintf(format, c))
	}
	return s
}

// place puts a secret of a name into a context and a wrapper.
func place(context, wrapper int, name, secret string) piece {
	c, encode := contexts[context], wrappers[wrapper].encode
	named := func(s string) string { return strings.ReplaceAll(s, "NAME", name) }
	before, after := named(c.before), named(c.after)
	if public, private, ok := strings.Cut(secret, `"d":"`); ok {
		end := strings.LastIndexByte(private, '"')
		if x := strings.Index(private, `","x"`); x > 0 {
			end = x
		}
		before, secret, after = before+public+`"d":"`, private[:end], private[end:]+after
	}
	return piece{encode(before), encode(secret), encode(after)}
}

// fits reports whether anybody writes a context in a wrapper: no terminal's colours nor command lines are in URLs.
func fits(context, wrapper int) bool {
	name := contexts[context].name
	return !strings.HasPrefix(wrappers[wrapper].name, "URL") || !strings.HasPrefix(name, "colour") && name != "flag"
}
