package ui

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Language is a language of the portal: its texts by the English ones. nil is English.
type Language struct {
	Tag   string
	texts map[string]string
}

//go:embed languages
var languageFiles embed.FS

// languages are those of the portal besides English, by tag.
var languages = readLanguages()

func readLanguages() map[string]*Language {
	all := map[string]*Language{}
	files, err := fs.Glob(languageFiles, "languages/*.json")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		l := &Language{strings.TrimSuffix(path.Base(file), ".json"), ReadJSON[map[string]string](languageFiles, file)}
		all[l.Tag] = l
	}
	return all
}

// Language is the one of the page: the dashboard is English, the portal has that of the link, or else the first of the
// browser that it has.
func (v *Visit) Language() *Language {
	switch {
	case v.Portal == nil:
		return nil
	case v.Portal.PortalSession != nil && v.Portal.Lang != "":
		return languages[v.Portal.Lang]
	}
	for part := range strings.SplitSeq(v.R.Header.Get("Accept-Language"), ",") {
		tag, _, _ := strings.Cut(part, ";")
		tag, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		if languages[tag] != nil || tag == "en" {
			return languages[tag]
		}
	}
	return nil
}

// T returns an English text in the language of the page.
func (v *Visit) T(english string, args ...any) string { return v.Language().T(english, args...) }

// T returns an English text in the language, itself if the language does not have it. args replace its %s.
func (l *Language) T(english string, args ...any) string {
	text := english
	if l != nil {
		text = cmp.Or(l.texts[english], english)
	}
	if len(args) > 0 {
		text = fmt.Sprintf(text, args...)
	}
	return text
}

// Count returns a number with the word for it: one is the text for 1, many has a %s.
func (l *Language) Count(n any, one, many string) string {
	if Count(n) == 1 {
		return l.T(one)
	}
	return l.T(many, l.Number(Count(n)))
}

// numberExample and dayLayout have the separators of numbers and the order of a day's parts in each language.
const numberExample, dayLayout = "1,234.5", "2\u00a0Jan\u00a015:04:05"

// Number returns a whole number as the language writes it.
func (l *Language) Number(n int64) string {
	_, after, _ := strings.Cut(l.T(numberExample), "1")
	separator, _, _ := strings.Cut(after, "234")
	return strings.ReplaceAll(Number(n), ",", separator)
}

// decimalPoint replaces the point of a number in a text.
func (l *Language) decimalPoint(text string) string {
	_, after, _ := strings.Cut(l.T(numberExample), "234")
	return strings.ReplaceAll(text, ".", strings.TrimSuffix(after, "5"))
}

// Percent is [Percent] in the language.
func (l *Language) Percent(part, whole int64) string { return l.decimalPoint(Percent(part, whole)) }

// scriptTexts are those of app.js: of distances in time and of buttons.
var scriptTexts = []string{"now", "due now", "%s ago", "in %s", "%s\u00a0s", "%s\u00a0min", "%s\u00a0h", "%s\u00a0days",
	"Copy", "Copied", "It was shown once."}

// Words are the texts that app.js writes, as JSON; empty for English, which it has itself.
func (l *Language) Words() string {
	if l == nil {
		return ""
	}
	all := map[string]string{}
	for _, text := range scriptTexts {
		all[text] = l.T(text)
	}
	return string(web.Encode(all))
}

var distance = regexp.MustCompile(`^(in )?(\d+)\x{a0}(\w+)( ago)?$`)

// Relative returns a distance in time as [Relative] does.
func (l *Language) Relative(ago time.Duration) string {
	text := Relative(ago)
	x := distance.FindStringSubmatch(text)
	switch {
	case l == nil:
		return text
	case x == nil:
		return l.T(text)
	case x[1] != "":
		return l.T("in %s", l.T("%s\u00a0"+x[3], x[2]))
	}
	return l.T("%s ago", l.T("%s\u00a0"+x[3], x[2]))
}

// moment is [Dashboard.Moment], or DueMoment, in the language.
func (l *Language) moment(d *Dashboard, t any, planned bool) moment {
	m := d.Moment(t)
	if planned {
		m = d.DueMoment(t)
	}
	if l == nil || m.ISO == "" {
		return m
	}
	at, _ := time.Parse(time.RFC3339, m.ISO) // it is a time
	if m.Relative = l.Relative(d.Now().Sub(at)); m.Due && !at.After(d.Now()) {
		m.Relative = l.T("due now")
	}
	if len(m.Clock) > len("15:04:05") {
		m.Clock = at.Format(l.T(dayLayout))
	}
	return m
}

// functions are those of templates that differ by language.
func (l *Language) functions(d *Dashboard) template.FuncMap {
	return template.FuncMap{
		"t": l.T, "tn": l.Count,
		"at":     func(t any) moment { return l.moment(d, t, false) },
		"due":    func(t any) moment { return l.moment(d, t, true) },
		"number": func(n any) string { return l.Number(Count(n)) },
		"reason": func(status event.Status, x wire.Why) []Passage { return l.reason(d, status, x) },
		"bytes": func(n any) string {
			text := byteSize(int(Count(n)))
			if number, isBytes := strings.CutSuffix(text, "\u00a0bytes"); isBytes {
				return l.T("%s\u00a0bytes", number)
			}
			return l.decimalPoint(text)
		},
	}
}

var failedAttempt = regexp.MustCompile(`^attempt (\d+) failed \((.*)\)$`)

// reason explains a status to people of a tenant, who know of no endpoint: the reason, the last attempt, and what comes
// next.
func (l *Language) reason(d *Dashboard, status event.Status, x wire.Why) (parts []Passage) {
	attempt := failedAttempt.FindStringSubmatch(TextOf(x.Cause))
	if text := words["reason"][x.Code]; text != "" && (attempt == nil || x.Code != string(status)) {
		parts = append(parts, Passage{Text: l.T(text) + " "})
	}
	if attempt != nil && status != event.Delivered {
		parts = append(parts, Passage{Text: l.T("Attempt %s failed (%s).", attempt[1], attempt[2]) + " "})
	}
	open := status == event.Retrying || status == event.Pending || status == event.Held
	if open && x.Halt(status) == "" && !x.Until.IsZero() {
		parts = append(parts, Passage{Text: l.T("Next attempt:") + " "}, Passage{At: l.moment(d, x.Until, true)})
	}
	return parts
}
