package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// functions are what templates can call.
func (d *Dashboard) functions() template.FuncMap {
	return template.FuncMap{
		"at":           d.moment,
		"due":          d.dueMoment,
		"bytes":        func(n any) string { return byteSize(int(count(n))) },
		"number":       func(n any) string { return number(count(n)) },
		"plural":       func(n any, one, many string) string { return plural(int(count(n)), one, many) },
		"count":        count,
		"seconds":      func(n any) string { return durationText(float64(count(n))) },
		"next":         func(n int) int { return n + 1 },
		"width":        meterWidth,
		"capital":      func(text any) string { return capital(textOf(text)) },
		"sentence":     func(text any) string { return sentence(textOf(text)) },
		"json":         jsonText,
		"plain":        func(text any) string { return plain(textOf(text)) },
		"page":         func(id any) string { return pageOf(textOf(id)) },
		"shortID":      shortID,
		"place":        placeText,
		"operations":   operationLines,
		"warning":      warningText,
		"nonce":        newNonce,
		"field":        newField,
		"choice":       newChoice,
		"options":      newOptions,
		"filter":       filterChoices,
		"leaking":      func(at web.Time) bool { return d.deps.Now().Sub(time.Time(at)) < leakingSpan },
		"word":         func(about string, word any) string { return wordText(about, textOf(word)) },
		"known":        func(about string, word any) string { return words[about][textOf(word)] },
		"spaced":       func(word any) string { return strings.ReplaceAll(textOf(word), "_", " ") },
		"perMinute":    perMinute,
		"percent":      percent,
		"milliseconds": milliseconds,
		"platforms":    func() []option { return dsnPlatforms },
		"maxDomains":   func() int { return config.MaxDomains },
		"status":       func(word any) status { return newStatus(textOf(word)) },
		"why":          d.why,
		"failure":      failureText,
		"details":      detailsText,
		"channel":      func(k notify.Kind) string { return cmp.Or(channelTexts[k].Title, string(k)) },
		"hour":         func(at web.Time) string { return time.Time(at).UTC().Format("2 Jan 15:04") },
		"shell":        commandLines,
		"onlyHere":     isOnlyHere,
	}
}

// Texts in isoFormat sort by time.
const isoFormat = "2006-01-02T15:04:05.000Z"

// moment is a time for the template "time".
type moment struct {
	ISO      string // for machines, in UTC with milliseconds
	Exact    string // for the title
	Clock    string // of its day, with the day if that is not the day of now
	Relative string // from now
	Due      bool   // a planned time: once past, it reads "due now"
}

// Date and Time are the parts of Exact; each stays on one line.
func (m moment) Date() string { date, _, _ := strings.Cut(m.Exact, " "); return date }
func (m moment) Time() string { _, clock, _ := strings.Cut(m.Exact, " "); return clock }

// Millis are the milliseconds of the time, which Clock leaves out.
func (m moment) Millis() string { return strings.TrimSuffix(m.ISO[max(0, len(m.ISO)-4):], "Z") }

// moment returns a time for a page. t is a time or a text of the API with one; zero and empty give the zero moment.
func (d *Dashboard) moment(t any) moment {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case web.Time:
		at = time.Time(t)
	case string:
		at, _ = time.Parse(time.RFC3339, t)
	default:
		panic(fmt.Sprintf("BUG: %T is no time", t))
	}
	if at.IsZero() {
		return moment{}
	}
	at = at.UTC()
	now := d.deps.Now().UTC()
	clock := at.Format("15:04:05")
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		clock = at.Format("2\u00a0Jan\u00a015:04:05")
	}
	return moment{ISO: at.Format(isoFormat), Exact: at.Format("2006-01-02 15:04:05.000") + "\u00a0UTC",
		Clock: clock, Relative: relative(now.Sub(at))}
}

// dueMoment is moment for a time at which something is planned. Once it has passed it reads "due now".
func (d *Dashboard) dueMoment(t any) moment {
	m := d.moment(t)
	m.Due = m.ISO != ""
	if m.Due && m.ISO <= d.deps.Now().UTC().Format(isoFormat) {
		m.Relative = "due now"
	}
	return m
}

// passage is a part of a sentence for the template "prose": text, a name, or a time.
type passage struct {
	Text   string
	Strong bool   // Text is a name
	At     moment // zero: the passage is Text
}

// explained is what the API explains with a sentence.
type explained interface{ why() (string, wire.Why) }

// why is prose for templates.
func (d *Dashboard) why(x explained) []passage { return d.prose(x.why()) }

// prose splits a sentence of the API, so that its time is shown as the clock and the distance from now.
func (d *Dashboard) prose(text string, x wire.Why) []passage {
	before, after, timed := strings.Cut(text, x.Until.String())
	switch {
	case x.Until.IsZero() || !timed:
		return []passage{{Text: text}}
	case x.Code == wire.HaltPayloadErased:
		return []passage{{Text: before}, {At: d.moment(x.Until)}, {Text: after}}
	}
	return []passage{{Text: before}, {At: d.dueMoment(x.Until)}, {Text: after}}
}

// commandLine is a line of a command for the template "shell". End are its last characters, which stay on one line, if
// it ends with a backslash: alone on a line that looks like a mistake.
type commandLine struct{ Start, End string }

func commandLines(text string) (lines []commandLine) {
	for line := range strings.Lines(text) {
		start, continued := strings.CutSuffix(line, " \\\n")
		if !continued {
			lines = append(lines, commandLine{Start: line})
			continue
		}
		kept := len(start)
		for range 4 {
			_, n := utf8.DecodeLastRuneInString(start[:kept])
			kept -= n
		}
		lines = append(lines, commandLine{start[:kept], line[kept : len(line)-1]})
	}
	return lines
}

// relative returns a distance in time in its largest unit: 3 min ago, in 2 h.
func relative(ago time.Duration) string {
	distance := ago.Abs()
	if ago < 0 { // the nearest: what was made to last 14 days does not end in 13
		switch {
		case distance >= 48*time.Hour:
			distance += 12 * time.Hour
		case distance >= time.Hour:
			distance += 30 * time.Minute
		case distance >= time.Minute:
			distance += 30 * time.Second
		}
	}
	text := ""
	switch {
	case distance < time.Second:
		return "now"
	case distance < time.Minute:
		text = strconv.Itoa(int(distance/time.Second)) + "\u00a0s"
	case distance < time.Hour:
		text = strconv.Itoa(int(distance/time.Minute)) + "\u00a0min"
	case distance < 48*time.Hour:
		text = strconv.Itoa(int(distance/time.Hour)) + "\u00a0h"
	default:
		text = strconv.Itoa(int(distance/(24*time.Hour))) + "\u00a0days"
	}
	if ago < 0 {
		return "in " + text
	}
	return text + " ago"
}

// byteSize returns a number of bytes with its unit.
func byteSize(n int) string {
	const unit = 1024
	switch {
	case n < unit:
		return strconv.Itoa(n) + "\u00a0bytes"
	case n < unit*unit:
		return strconv.FormatFloat(float64(n)/unit, 'f', 1, 64) + "\u00a0KiB"
	default:
		return strconv.FormatFloat(float64(n)/(unit*unit), 'f', 1, 64) + "\u00a0MiB"
	}
}

// count returns a number of the API; 0 for null.
func count(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	case *int64:
		if n != nil {
			return *n
		}
	case *int:
		if n != nil {
			return int64(*n)
		}
	}
	return 0
}

// meterWidth is the width of a part in a meter of 1000 units.
func meterWidth(part, whole int) string {
	return decimal(1000 * float64(part) / float64(max(whole, 1)))
}

// number returns a whole number with commas between thousands.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(text, "-")
	var out []byte
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return text[:len(text)-len(digits)] + string(out)
}

// plain makes the characters of an untrusted text visible that are invisible or change how the text around them is
// shown: control characters, bidirectional controls, zero-width and tag characters, and bytes that are not UTF-8. New
// lines and tabs stay as they are. html/template escapes the result.
func plain(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\r':
			b.WriteString(`\r`)
		case isHidden(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHidden(r rune) bool { return r != '\n' && r != '\t' && web.IsInvisible(r) }

// statuses are the states that have a mark and a colour of their own.
var statuses = []string{"pending", "retrying", "held", "delivered", "failed", "skipped", "rejected"}

// status is a state for the templates "status" and "mark".
type status struct {
	Word string // as the API says it
	Mark string // one of statuses, or "note"
	On   bool   // somebody is needed: it gets a tint
}

func newStatus(word string) status {
	s := status{Word: word, Mark: word, On: slices.Contains([]string{"retrying", "held", "failed", "rejected"}, word)}
	if !slices.Contains(statuses, word) {
		s.Mark = "note"
	}
	return s
}

// marks are one mark for each of several destinations, as many as a row of a list has room for.
type marks struct {
	Shown []status
	More  int // how many are left out
}

// A row shows up to maxMarks marks, and of more shownMarks and a number.
const (
	maxMarks   = 6
	shownMarks = 5
)

// urgency is the order in which marks are shown if there are too many: what needs somebody first.
var urgency = []string{"failed", "retrying", "held", "rejected", "pending", "note", "skipped", "delivered"}

func newMarks(all []status) marks {
	if len(all) <= maxMarks {
		return marks{Shown: all}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b status) int {
		return slices.Index(urgency, a.Mark) - slices.Index(urgency, b.Mark)
	})
	return marks{all[:shownMarks], len(all) - shownMarks}
}

// sentence returns a message of the API as a sentence.
func sentence(message string) string {
	if message == "" || strings.HasSuffix(message, ".") {
		return capital(message)
	}
	return capital(message) + "."
}

// words are what pages say for the words of the API, by what they are about.
var words = readJSON[map[string]map[string]string]("templates/words.json")

// wordText returns what a page says for a word of the API: the word itself, or in the text for any other word, if it is
// not known.
func wordText(about, word string) string {
	text := cmp.Or(words[about][word], words[about]["*"], "%s")
	return strings.Replace(text, "%s", word, 1)
}

// readJSON reads a file that is a part of the program.
func readJSON[T any](name string) (out T) {
	text, err := templateFiles.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// textOf returns a text or a word of the API; empty for null.
func textOf(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case *string:
		if value == nil {
			return ""
		}
		return *value
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

// capital returns a text with a capital letter at its beginning.
func capital(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[n:]
}

// truncate returns the first bytes of a text, cut between characters, with "…" at the end.
func truncate(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}
