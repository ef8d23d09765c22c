package ui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var (
	inTemplate  = regexp.MustCompile(`[({ ]tn? (?:[.$][\w.]* )?("(?:[^"\\]|\\.)*")( "(?:[^"\\]|\\.)*")?`)
	sentence    = regexp.MustCompile(`^[A-Z][a-z]+[ ,.].`)
	translating = []string{"T", "Count", "Redirect", "Opens"}
	placeholder = regexp.MustCompile(`%(\[\d\])?s`)
)

// portalTexts are all English texts that pages of the portal may show, besides those of people and of the API.
func portalTexts(t *testing.T) map[string]bool {
	all := map[string]bool{numberExample: true, dayLayout: true,
		"The event store is unavailable at the moment; no event is lost, try again later.": true, "Not saved": true,
		"The endpoint is paused. Deliveries wait.": true, "Paused by hand. Deliveries wait.": true}
	for _, list := range [][]string{scriptTexts, Statuses, {"active", "paused", "disabled"},
		slices.Collect(maps.Values(words["reason"])), slices.Collect(maps.Values(words["destination"])),
		{string(event.TriggerInitial), string(event.TriggerRetry), string(event.TriggerReplay),
			string(event.TriggerRecovery), string(event.TriggerCanary), string(event.TriggerTest)},
		{string(config.ActionApproved), string(config.ActionDone), string(config.ActionDeclined),
			string(config.ActionExpired), string(config.ActionConflict), string(config.ActionRefused)}} {
		for _, text := range list {
			all[text] = true
		}
	}
	for _, dir := range []string{"templates", "../../features/portal/pages/pages", "../../features/agents/pages/pages"} {
		is.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".html") {
				return err
			}
			for _, found := range inTemplate.FindAllStringSubmatch(string(must.Get(os.ReadFile(dir+"/"+name))(t)), -1) {
				for _, text := range found[1:] {
					if text != "" {
						all[must.Get(strconv.Unquote(strings.TrimSpace(text)))(t)] = true
					}
				}
			}
			return nil
		}))
	}
	for _, file := range []string{"portal.go", "language.go",
		"../../features/portal/pages/session.go", "../../features/portal/pages/destinations.go",
		"../../features/portal/pages/events.go", "../../features/portal/pages/area.go",
		"../../features/agents/pages/requests.go", "../../features/agents/pages/confirm.go"} {
		ast.Inspect(must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t), func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(translating, name.Sel.Name) {
					for _, arg := range call.Args {
						if text := literal(arg); text != "" && text[0] != '/' {
							all[text] = true
						}
					}
				}
			}
			if x, ok := n.(ast.Expr); ok && !strings.Contains(file, "confirm.go") {
				if text := literal(x); sentence.MatchString(text) {
					all[text] = true
					return false
				}
			}
			return true
		})
	}
	return all
}

// literal is the text of a literal, or of several that are added; empty for other expressions.
func literal(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		if left, right := literal(x.X), literal(x.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

// Every language has every text of the portal and no other, with the same places for values.
func TestLanguagesAreComplete(t *testing.T) {
	texts := portalTexts(t)
	is.List(t, slices.Sorted(maps.Keys(languages)), []string{"de", "es", "fr", "ja"})
	for tag, l := range languages {
		for text := range texts {
			is.Equal(t, l.texts[text] != "", true, "%s lacks %q", tag, text)
		}
		for text, translated := range l.texts {
			is.Equal(t, texts[text], true, "%s has %q, which no page shows", tag, text)
			is.Equal(t, len(placeholder.FindAllString(translated, -1)), len(placeholder.FindAllString(text, -1)),
				"values in %q in %s", text, tag)
			is.Equal(t, strings.Count(translated, "`"), strings.Count(text, "`"), "code in %q in %s", text, tag)
		}
	}
	for reason := range wire.Reasons {
		is.Equal(t, words["reason"][string(reason)] != "", true, "the portal has no text for %s", reason)
	}
}

func TestLanguageOfNumbersAndTimes(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	d := &Dashboard{Deps: Deps{Now: func() time.Time { return now }}}
	for tag, want := range map[string][]string{
		"":   {"1,234,567", "98.2 %", "3 min ago", "in 2 h", "20 Aug 10:00:00"},
		"de": {"1.234.567", "98,2 %", "vor 3 Min.", "in 2 Std.", "20.8. 10:00:00"},
		"fr": {"1 234 567", "98,2 %", "il y a 3 min", "dans 2 h", "20/08 10:00:00"},
		"es": {"1.234.567", "98,2 %", "hace 3 min", "en 2 h", "20/8 10:00:00"},
		"ja": {"1,234,567", "98.2 %", "3分前", "2時間後", "8月20日 10:00:00"},
	} {
		l := languages[tag]
		got := []string{l.Number(1234567), l.Percent(982, 1000), l.Relative(3 * time.Minute), l.Relative(-2 * time.Hour),
			l.moment(d, now.Add(-26*time.Hour), false).Clock}
		for i := range got {
			got[i] = strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(got[i])
		}
		is.List(t, got, want, tag)
	}
	cause := "attempt 2 failed (HTTP 503)"
	var text strings.Builder
	for _, part := range languages["de"].reason(d, event.Retrying, wire.Why{Code: "retrying", Cause: &cause,
		Until: web.Time(now.Add(time.Minute))}) {
		text.WriteString(part.Text + part.At.Relative)
	}
	is.Equal(t, strings.ReplaceAll(text.String(), "\u00a0", " "),
		"Versuch 2 ist fehlgeschlagen (HTTP 503). Nächster Versuch: in 1 Min.")
}
