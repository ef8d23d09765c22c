package ui

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A warning names its parameter, in words if pages have some for it.
func TestWarningsAreSentences(t *testing.T) {
	for want, x := range map[string]wire.Warning{
		"Status: 1 of these events were rejected.": {Param: "status", Message: "1 of these events were rejected"},
		"Email: no mail server is configured.":     {Param: "channels.email", Message: "no mail server is configured"},
		"Url: is not reachable.":                   {Param: "url", Message: "is not reachable"},
		"Name: contained a secret.":                {Param: "name", Message: "contained a secret"},
		"Nothing is sent.":                         {Param: "", Message: "nothing is sent"},
		"Retries: unknown member, ignored.":        {Param: "retries", Message: "unknown member, ignored"},
	} {
		is.Equal(t, warningText(x), want)
	}
}

func TestDurations(t *testing.T) {
	for seconds, want := range map[float64]string{
		0.5: "0.5 s", 59: "59 s", 60: "1 min", 90: "1 min 30 s", 3600: "1 h", 86399: "1 d", 90000: "1 d 1 h", 86700: "1 d",
	} {
		is.Equal(t, strings.ReplaceAll(DurationText(seconds), "\u00a0", " "), want, "%v seconds are", seconds)
	}
}

func TestCommandsKeepTheirBackslash(t *testing.T) {
	got := commandLines("curl é'x' \\\n  --data 'a\nb'")
	want := []commandLine{{"curl ", "é'x' \\"}, {"  --data 'a\n", ""}, {"b'", ""}}
	must.Equal(t, len(got), len(want), got)
	for i := range want {
		is.Equal(t, got[i], want[i])
	}
}

func TestPercent(t *testing.T) {
	for _, x := range []struct {
		part, whole int64
		want        string
	}{{0, 0, "–"}, {0, 9, "0"}, {1, 1_000_000, "0.1"}, {999_999, 1_000_000, "99.9"}, {7, 7, "100"}, {1, 3, "33.3"}} {
		is.Equal(t, strings.TrimSuffix(Percent(x.part, x.whole), "\u00a0%"), x.want, "%d of %d is", x.part, x.whole)
	}
}

func TestHiddenCharactersAreVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\u202eb":   `a\u{202e}b`,
		"a\x00b\x1b": `a\u{0}b\u{1b}`, "\x7f": `\u{7f}`, "a\r\n": "a\\r\n", "\u0085": `\u{85}`, "tab\tline\n": "tab\tline\n",
		"\xff": `\xff`, "\u200b": `\u{200b}`, "é 日本": "é 日本", "\uFFFD": "\uFFFD",
	} {
		if got := Plain(text); got != want {
			t.Errorf("plain(%q) = %q, want %q", text, got, want)
		}
	}
}
