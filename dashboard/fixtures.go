package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/fixture"
)

// Paths of the pages of fixtures.
const (
	fixturesPath      = "/app/fixtures"
	fixturePath       = fixturesPath + "/{fixture}"
	fixtureExportPath = fixturesPath + "/export"
	fixtureAPI        = "/v1/fixtures/{fixture}"
)

// fixtureRoutes are the pages and actions of fixtures.
func fixtureRoutes() []route {
	return []route{
		{"GET", fixturesPath, reader, withNewForm(showFixtures)},
		{"GET", fixtureExportPath, reader, exportFixtures},
		{"GET", fixturePath, reader, show(readFixture, showFixture)},
		{"POST", fixturePath, writer, change(readFixture, saveFixture)},
		{"POST", fixturePath + "/delete", writer, act("DELETE "+fixtureAPI, nil, fixturesPath,
			"Deleted. Files that were exported work until they expire.")},
		{"POST", eventPath + "/fixture", writer, create("POST /v1/fixtures", newFixture, nil,
			"The copy is made and sanitised. Choose what its answer must be.")},
	}
}

// fixtureData is a fixture of the API. Lists leave out the last five members.
type fixtureData struct{ wire.Fixture }

var showFixtures = listOf[*fixtureData]("fixtures", "/v1/fixtures", fixturesPath)

// exportFixtures sends the chosen fixtures as one file.
func exportFixtures(v *visit) error {
	ids := v.r.URL.Query()["ids"]
	var file json.RawMessage
	err := v.get("/v1/fixtures/export", url.Values{"ids": ids}, &file)
	if status := statusOf(err); status == http.StatusBadRequest || status == http.StatusNotFound {
		f := newForm(url.Values{"ids": ids}, "")
		if f.Error, v.status = messageOf(err), status; len(ids) == 0 {
			f.Error = "Choose the fixtures of the file first."
		}
		return showFixtures(v, f)
	} else if err != nil {
		return err
	}
	sendFile(v, "fixtures.json", "application/json", file)
	return nil
}

func newFixture(v *visit, _ *form) members { return members{"event_id": v.vars["event"]} }

// redactedRow is a value that the sanitiser has redacted.
type redactedRow struct {
	Pointer string
	Why     string
	Now     string // the value in the fixture
	Kept    bool
	Fixed   bool // it cannot be kept
}

// maxRedactedRows is how many redacted values the page shows.
const maxRedactedRows = 200

// maxShownValue is how much of a value a row shows, in bytes.
const maxShownValue = 80

// fixturePage is the data of the page of one fixture.
type fixturePage struct {
	*fixtureData
	Form   *form
	Rows   []redactedRow
	More   int      // redacted values that have no row
	Hidden []string // of these, those that are kept
	Lives  []option
	Base   string
}

// lifeDays are the expiries that the form offers.
var lifeDays = []int{1, 7, 14, 30, 90}

func newFixturePage(v *visit, d *fixtureData, f *form) *fixturePage {
	p := &fixturePage{fixtureData: d, Form: f, Base: v.cfg.BaseURL, Lives: []option{{Text: "As it is"}}}
	for _, days := range lifeDays {
		p.Lives = append(p.Lives, option{Value: strconv.Itoa(days), Text: "In " + plural(days, "day", "days")})
	}
	var body any
	dec := json.NewDecoder(bytes.NewReader(d.Body))
	dec.UseNumber()
	_ = dec.Decode(&body) // it is JSON; otherwise no values are shown
	var pointers []string // each once
	reasons := map[string][]string{}
	for _, x := range d.Redactions {
		if reasons[x.Pointer] == nil {
			pointers = append(pointers, x.Pointer)
		}
		reasons[x.Pointer] = append(reasons[x.Pointer], string(x.Reason))
	}
	for _, at := range pointers[:min(len(pointers), maxRedactedRows)] {
		p.Rows = append(p.Rows, redactedRow{Pointer: at, Why: whyRedacted(reasons[at]), Kept: f.Has("keep", at),
			Now: truncate(valueAt(body, at), maxShownValue), Fixed: neverKept(reasons[at])})
	}
	for _, at := range pointers[len(p.Rows):] {
		p.More++
		if f.Has("keep", at) {
			p.Hidden = append(p.Hidden, at)
		}
	}
	return p
}

// whyRedacted says in words why a value was redacted.
func whyRedacted(reasons []string) string {
	words := make([]string, len(reasons))
	for i, reason := range reasons {
		words[i] = wordText("redacted", reason)
	}
	return strings.Join(words, ", ")
}

// neverKept reports whether the API refuses to keep a value: one with a secret, or whose name alone was redacted.
func neverKept(reasons []string) bool {
	return slices.Contains(reasons, "secret") ||
		!slices.ContainsFunc(reasons, func(reason string) bool { return reason != "member_name" })
}

// valueAt returns the value at a JSON Pointer as text.
func valueAt(body any, pointer string) string {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch x := body.(type) {
		case map[string]any:
			body = x[unescape.Replace(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return ""
			}
			body = x[i]
		}
	}
	switch x := body.(type) {
	case string:
		return x
	case json.Number:
		return x.String()
	case nil:
		return ""
	}
	return "…"
}

// fixtureValues are the stored values of the form.
func fixtureValues(d *fixtureData) url.Values {
	var lines []string
	for _, x := range d.Required {
		line := x.Pointer
		switch {
		case x.Equals != nil:
			line += " = " + string(x.Equals)
		case x.Type != "":
			line += " : " + x.Type
		}
		lines = append(lines, line)
	}
	return url.Values{"name": {d.Name}, "expected_status": {strconv.Itoa(d.ExpectedStatus)}, "expires_at": {""},
		"required": {strings.Join(lines, "\n")}, "keep": d.Keep, "body": {indented(d.Body)}}
}

// maxIndented is how large a body may become by indenting, in bytes.
const maxIndented = 512 << 10

// indented returns JSON indented for editing, or as it is if it is nested so deep that this would be large.
func indented(body []byte) string {
	depth, lines := event.JSONDepth(body), bytes.Count(body, []byte(","))+bytes.Count(body, []byte(":"))
	var out bytes.Buffer
	if len(body)+2*depth*(lines+2*depth) > maxIndented || json.Indent(&out, body, "", "  ") != nil {
		return string(body)
	}
	return out.String()
}

var readFixture = thing[fixtureData](fixtureAPI)

func showFixture(v *visit, d *fixtureData) error {
	return v.page("fixture", newFixturePage(v, d, newForm(fixtureValues(d), strconv.Itoa(d.Version))))
}

// saveFixture saves what the form changes.
func saveFixture(v *visit, f *form, d *fixtureData) error {
	body, err := fixtureChanges(v, f, d)
	if err == nil && len(body) == 0 {
		return v.redirect(pageOf(d.ID), "Nothing was changed.")
	}
	after := &fixtureData{}
	if err == nil {
		stored := fixtureValues(d)
		for _, name := range []string{"body", "keep", "expires_at"} { // too much to be shown
			delete(stored, name)
		}
		f.addVersion(body, d.Version, stored)
		err = fieldError(v.do("PATCH "+fixtureAPI, f, body, after))
	}
	return v.answer(f, err, func() error { return v.page("fixture", newFixturePage(v, d, f)) },
		func() error { return v.redirect(pageOf(d.ID), "Saved as version "+strconv.Itoa(after.Version)) })
}

// fieldError names the field of the form that an error of the API is about.
func fieldError(err error) error {
	x, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	name, inside, part := strings.Cut(x.Param, "[")
	switch {
	case strings.HasPrefix(x.Param, "/"):
		x.Param, x.Message = "body", x.Param+" "+x.Message
	case part:
		if index, _, _ := strings.Cut(inside, "]"); name == "required" {
			x.Message = "line " + lineNumber(index) + ": " + x.Message
		}
		x.Param = name
	}
	return err
}

// fixtureChanges returns the members that the form changes.
func fixtureChanges(v *visit, f *form, d *fixtureData) (map[string]any, error) {
	body, stored := map[string]any{}, fixtureValues(d)
	if name := strings.TrimSpace(f.Value("name")); name != d.Name {
		body["name"] = name
	}
	if text := strings.TrimSpace(f.Value("expected_status")); text != strconv.Itoa(d.ExpectedStatus) {
		status, err := strconv.Atoi(text)
		if err != nil {
			return nil, fault("expected_status", "must be a number from 100 to 599")
		}
		body["expected_status"] = status
	}
	if days, err := strconv.Atoi(f.Value("expires_at")); err == nil && slices.Contains(lifeDays, days) {
		body["expires_at"] = v.deps.Now().UTC().AddDate(0, 0, days).Format(time.RFC3339)
	}
	if text := strings.TrimSpace(unixLines(f.Value("required"))); text != stored.Get("required") {
		required, n := requiredOf(text)
		if n > 0 {
			return nil, fault("required", "line %d: write /pointer, /pointer : type or /pointer = JSON", n)
		}
		body["required"] = required
	}
	keep := slices.Sorted(slices.Values(f.values["keep"]))
	if !slices.Equal(keep, slices.Sorted(slices.Values(d.Keep))) {
		body["keep"] = append([]string{}, keep...)
	}
	if text := unixLines(f.Value("body")); text != unixLines(stored.Get("body")) && f.values.Has("body") {
		if !json.Valid([]byte(text)) {
			return nil, fault("body", "must be JSON")
		}
		body["body"] = json.RawMessage(text)
	}
	return body, nil
}

// requiredOf reads the lines of required fields. n is the number of the first line that is none, 0 if there is none.
func requiredOf(text string) (all []fixture.Required, n int) {
	all = []fixture.Required{}
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var x fixture.Required
		if pointer, value, ok := strings.Cut(line, " = "); ok {
			x = fixture.Required{Pointer: strings.TrimSpace(pointer), Equals: json.RawMessage(strings.TrimSpace(value))}
			if !json.Valid(x.Equals) {
				return nil, n
			}
		} else if i := strings.LastIndex(line, " : "); i >= 0 {
			x = fixture.Required{Pointer: strings.TrimSpace(line[:i]), Type: strings.TrimSpace(line[i+len(" : "):])}
		} else {
			x.Pointer = line
		}
		all = append(all, x)
	}
	return all, 0
}
