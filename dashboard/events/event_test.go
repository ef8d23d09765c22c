package events

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

func TestBodyViewIsBounded(t *testing.T) {
	for name, body := range map[string]string{
		"deep":  strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"large": `"` + strings.Repeat("a", maxShownBody) + `"`,
	} {
		if v := newBodyView([]byte(body), ""); v.As != "raw" || len(v.Text) > maxShownBody {
			t.Errorf("%s: shown as %s with %d bytes", name, v.As, len(v.Text))
		}
	}
	if v := newBodyView(make([]byte, 1<<20), ""); v.As != "hex" && v.As != "raw" || len(v.Text) > 5*maxShownBody {
		t.Errorf("%s, %d bytes", v.As, len(v.Text))
	}
}

func TestJSONTokensKeepEveryByte(t *testing.T) {
	const text = `{"a\"b":[1,-2.5e+10,true,false,null,"x: \\"],"":{}}`
	var got strings.Builder
	for _, line := range jsonLines([]byte(text)) {
		for _, part := range line.Tokens {
			got.WriteString(strings.TrimLeft(part.Text, " "))
		}
	}
	if want := strings.ReplaceAll(text, `":`, `": `); got.String() != strings.ReplaceAll(want, `"x: `, `"x: `) &&
		strings.ReplaceAll(got.String(), ": ", ":") != strings.ReplaceAll(text, ": ", ":") {
		t.Errorf("%s", got.String())
	}
}

// Text of a sender does nothing in a terminal that the command is pasted into: no interrupt, no end of the paste.
func TestCurlHasNoControlCharacters(t *testing.T) {
	e := &eventDetail{Event: wire.Event{Method: "POST", Body: "\x03\x1b[201~'\\\r\t\u009b\u202e\ntrue",
		HeadersRaw: [][2]string{{"X-A", "\xff"}}}}
	const want = "curl -X 'POST' http://localhost:3000/ \\\n  -H $'X-A: \\377' \\\n" +
		"  --data-raw $'\\003\\033[201~\\047\\134\\015\\011\\302\\233\\342\\200\\256\ntrue'"
	is.Equal(t, e.localCurl(), want)
}

// A shell gives curl exactly the bytes of the event.
func TestCurlQuotes(t *testing.T) {
	e := &eventDetail{Event: wire.Event{Method: "POST", Body: "@it's $HOME `x`\n",
		HeadersRaw: [][2]string{{"X-A", "o'k"}, {"Host", "h"}}}}
	const want = "curl -X 'POST' http://localhost:3000/ \\\n  -H 'X-A: o'\\''k' \\\n  --data-raw '@it'\\''s $HOME `x`\n'"
	is.Equal(t, e.localCurl(), want)
	for _, e := range []wire.Event{
		{Body: strings.Repeat("a", maxCurlBody+1)}, {Body: "a\x00"},
		{EventBase: wire.EventBase{PayloadErasedAt: web.Time(time.Now())}},
	} {
		is.Equal(t, (&eventDetail{Event: e}).localCurl(), "")
	}
}
