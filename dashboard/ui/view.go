package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// DurationText returns a number of seconds in its two largest units: 5 s, 5 min, 2 h 35 min, 3 d 3 h.
func DurationText(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(math.Round(seconds*10)/10, 'f', -1, 64) + "\u00a0s"
	}
	left := int64(math.Round(seconds))
	if left >= 3600 {
		left = (left + 30) / 60 * 60 // seconds are not shown beside hours
	}
	var parts []string
	for _, u := range []struct {
		name    string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
		n := left / u.seconds
		if left %= u.seconds; n > 0 {
			parts = append(parts, fmt.Sprint(n, "\u00a0", u.name))
		}
		if len(parts) == 2 || len(parts) == 1 && n == 0 {
			break
		}
	}
	return strings.Join(parts, " ")
}

// Plural returns a number with the word for it.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1\u00a0" + one
	}
	return Number(int64(n)) + "\u00a0" + many
}

// functions are what templates can call, in English.
func (d *Dashboard) functions() template.FuncMap {
	all := template.FuncMap{
		"plural":       func(n any, one, many string) string { return Plural(int(Count(n)), one, many) },
		"count":        Count,
		"seconds":      func(n any) string { return DurationText(float64(Count(n))) },
		"next":         func(n int) int { return n + 1 },
		"width":        meterWidth,
		"capital":      func(text any) string { return Capital(TextOf(text)) },
		"sentence":     func(text any) string { return Sentence(TextOf(text)) },
		"json":         jsonText,
		"plain":        func(text any) string { return Plain(TextOf(text)) },
		"breaks":       breaks,
		"page":         func(id any) string { return PageOf(TextOf(id)) },
		"shortID":      ShortID,
		"place":        PlaceText,
		"warning":      warningText,
		"nonce":        NewNonce,
		"field":        newField,
		"choice":       newChoice,
		"options":      NewOptions,
		"filter":       filterChoices,
		"word":         func(about string, word any) string { return WordText(about, TextOf(word)) },
		"known":        func(about string, word any) string { return KnownText(about, TextOf(word)) },
		"spaced":       func(word any) string { return strings.ReplaceAll(TextOf(word), "_", " ") },
		"perMinute":    perMinute,
		"percent":      Percent,
		"milliseconds": milliseconds,
		"status":       func(word any) Status { return NewStatus(TextOf(word)) },
		"why":          d.why,
		"ticked":       ticked,
		"hour":         func(at web.Time) string { return time.Time(at).UTC().Format("2 Jan 15:04") },
		"shell":        commandLines,
		"onlyHere":     isOnlyHere,
	}
	maps.Copy(all, (*Language)(nil).functions(d))
	return all
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

// Moment returns a time for a page. t is a time, or a text of the API with one. Zero or empty: the zero moment.
func (d *Dashboard) Moment(t any) moment {
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
	now := d.Now().UTC()
	clock := at.Format("15:04:05")
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		clock = at.Format("2\u00a0Jan\u00a015:04:05")
	}
	return moment{ISO: at.Format(isoFormat), Exact: at.Format("2006-01-02 15:04:05.000") + "\u00a0UTC",
		Clock: clock, Relative: Relative(now.Sub(at))}
}

// DueMoment is [Moment] for a planned time. Once it has passed it reads "due now".
func (d *Dashboard) DueMoment(t any) moment {
	m := d.Moment(t)
	m.Due = m.ISO != ""
	if m.Due && m.ISO <= d.Now().UTC().Format(isoFormat) {
		m.Relative = "due now"
	}
	return m
}

// Passage is a part of a sentence for the template "prose": text, a name, or a time.
type Passage struct {
	Text   string
	Strong bool   // Text is a name
	Code   bool   // Text is what a program reads
	At     moment // zero: the passage is Text
}

// explained is what the API explains with a sentence.
type explained interface{ Explanation() (string, wire.Why) }

// why is prose for templates.
func (d *Dashboard) why(x explained) []Passage { return d.Prose(x.Explanation()) }

// Prose splits a sentence of the API, so that its time is shown as the clock and the distance from now.
func (d *Dashboard) Prose(text string, x wire.Why) []Passage {
	before, after, timed := strings.Cut(text, x.Until.String())
	switch {
	case x.Until.IsZero() || !timed:
		return []Passage{{Text: text}}
	case x.Code == wire.HaltPayloadErased:
		return []Passage{{Text: before}, {At: d.Moment(x.Until)}, {Text: after}}
	}
	return []Passage{{Text: before}, {At: d.DueMoment(x.Until)}, {Text: after}}
}

// ticked splits a message of the API, which has code between backticks.
func ticked(text string) (parts []Passage) {
	for i, part := range strings.Split(text, "`") {
		parts = append(parts, Passage{Text: part, Code: i%2 == 1})
	}
	return parts
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

// Relative returns a distance in time in its largest unit: 3 min ago, in 2 h.
func Relative(ago time.Duration) string {
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
		text = fmt.Sprint(int(distance.Seconds()), "\u00a0s")
	case distance < time.Hour:
		text = fmt.Sprint(int(distance.Minutes()), "\u00a0min")
	case distance < 48*time.Hour:
		text = fmt.Sprint(int(distance.Hours()), "\u00a0h")
	default:
		text = fmt.Sprint(int(distance.Hours())/24, "\u00a0days")
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

// Count returns a number of the API; 0 for null.
func Count(n any) int64 {
	switch v := reflect.Indirect(reflect.ValueOf(n)); {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	}
	return 0
}

// meterWidth is the width of a part in a meter of 1000 units.
func meterWidth(part, whole int) string {
	return decimal(1000 * float64(part) / float64(max(whole, 1)))
}

// Number returns a whole number with commas between thousands.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Plain makes the characters of an untrusted text visible that are invisible or change how the text around them is
// shown: control characters, bidirectional controls, zero-width and tag characters, and bytes that are not UTF-8. New
// lines and tabs stay as they are. html/template escapes the result.
func Plain(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, IsHidden) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\r':
			b.WriteString(`\r`)
		case IsHidden(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// IsHidden reports whether a character cannot be seen. New lines and tabs can.
func IsHidden(r rune) bool { return r != '\n' && r != '\t' && web.IsInvisible(r) }

// Statuses are the states that have a mark and a colour of their own.
var Statuses = []string{"pending", "retrying", "held", "delivered", "failed", "skipped", "rejected"}

// Status is a state for the templates "status" and "mark".
type Status struct {
	Word string // as the API says it
	Mark string // one of statuses, or "note"
	On   bool   // somebody is needed: it gets a tint
}

// NewStatus returns how a status of the API is shown.
func NewStatus(word string) Status {
	s := Status{Word: word, Mark: word, On: slices.Contains([]string{"retrying", "held", "failed", "rejected"}, word)}
	if !slices.Contains(Statuses, word) {
		s.Mark = "note"
	}
	return s
}

// Marks are one mark for each of several destinations, as many as a row of a list has room for.
type Marks struct {
	Shown []Status
	More  int // how many are left out
}

// A row shows up to maxMarks marks, and of more shownMarks and a number.
const (
	maxMarks   = 6
	shownMarks = 5
)

// urgency is the order in which marks are shown if there are too many: what needs somebody first.
var urgency = []string{"failed", "retrying", "held", "rejected", "pending", "note", "skipped", "delivered"}

// NewMarks returns the marks to show: all of a few, else the most urgent ones.
func NewMarks(all []Status) Marks {
	if len(all) <= maxMarks {
		return Marks{Shown: all}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Status) int {
		return slices.Index(urgency, a.Mark) - slices.Index(urgency, b.Mark)
	})
	return Marks{all[:shownMarks], len(all) - shownMarks}
}

// Sentence returns a message of the API as a sentence.
func Sentence(message string) string {
	if message == "" || strings.HasSuffix(message, ".") {
		return Capital(message)
	}
	return Capital(message) + "."
}

// words are what pages say for the words of the API, by what they are about.
var words = ReadJSON[map[string]map[string]string](templateFiles, "templates/words.json")

// KnownText returns what a page says for a word of the API; empty if the word is not known.
func KnownText(about, word string) string { return words[about][word] }

// WordText returns what a page says for a word of the API: the word itself, or in the text for any other word, if it is
// not known.
func WordText(about, word string) string {
	text := cmp.Or(words[about][word], words[about]["*"], "%s")
	return strings.Replace(text, "%s", word, 1)
}

// warningText is a warning of the API with its parameter.
func warningText(x wire.Warning) string {
	if x.Param == "" {
		return Sentence(x.Message)
	}
	return Sentence(WordText("warning", x.Param) + ": " + x.Message)
}

// ReadJSON reads a file that is a part of the program.
func ReadJSON[T any](files fs.FS, name string) (out T) {
	text, err := fs.ReadFile(files, name)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// TextOf returns a text or a word of the API; empty for null.
func TextOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	if v := reflect.Indirect(reflect.ValueOf(value)); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

// Capital returns a text with a capital letter at its beginning.
func Capital(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[n:]
}

// Truncate returns the first bytes of a text, cut between characters, with "…" at the end.
func Truncate(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}

// breaks returns a text of others that may break after its dots, slashes and underscores, and nowhere else.
func breaks(text any) template.HTML {
	escaped := template.HTMLEscapeString(Plain(TextOf(text)))
	return template.HTML(strings.NewReplacer(".", ".<wbr>", "/", "/<wbr>", "_", "_<wbr>").Replace(escaped))
}

// ShortID is the end of an id, by which people tell events of one list apart.
func ShortID(id string) string { return "…" + id[max(len(id)-8, 0):] }

// PlaceText is a place in a document.
func PlaceText(pointer string) string {
	if pointer == "" {
		return "the whole document"
	}
	return pointer
}
