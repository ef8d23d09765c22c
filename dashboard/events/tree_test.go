package events

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Objects and arrays of some lines fold, each fold ends, and a value leads to the events with it at the same place. A
// place that the search has no words for leads nowhere.
func TestTreeFoldsAndLeads(t *testing.T) {
	const body = `{"data":{"object":{"customer":"cus_\u00e9","n":[1,{"x":true,"y":-2.5e3,"z":null}]},"a.b":{"c":"no",
		"d":1},"":"no","e":""},"s":"` + "\u00e9" + `","$x":"no"}`
	links, folds, depth := map[string]string{}, 0, 0
	for _, l := range jsonLines([]byte(body)) {
		if l.Opens {
			folds, depth = folds+1, depth+1
		}
		if l.Closes {
			depth--
		}
		if depth < 0 {
			t.Fatal("a fold ends that has not begun")
		}
		if l.Path != "" {
			u := must.Get(url.Parse(l.Path))(t)
			links[u.Query().Get("body_path")] = u.Query().Get("body_value")
		}
	}
	if depth != 0 || folds != 4 { // data, object, n, and the object in n; a.b has two lines
		t.Errorf("%d folds, %d of them without an end", folds, depth)
	}
	want := map[string]string{"data.object.customer": "cus_é", "data.object.n.0": "1", "data.object.n.1.y": "-2.5e3",
		"s": "é"}
	is.Equal(t, len(links), len(want), "linked are %v", links)
	for path, value := range want {
		is.Equal(t, links[path], value, "%s leads to", path)
	}
	lines := jsonLines([]byte(`{"a":[` + strings.Repeat("1,", 5000) + `1],"api_token":"x"}`))
	if lines[len(lines)-2].Path != "" ||
		slices.IndexFunc(lines, func(l bodyLine) bool { return l.Path != "" }) < 0 ||
		len(slices.DeleteFunc(lines, func(l bodyLine) bool { return l.Path == "" })) > maxLinks {
		t.Error("a long body has too many links, or a token stands in one")
	}
	for _, text := range []string{`1`, `"a"`, `[]`, `{}`, `[1]`, `[[],{}]`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64)} {
		depth := 0
		for _, l := range jsonLines([]byte(text)) {
			for at, n := range map[bool]int{l.Opens: 1, l.Closes: -1} {
				if at {
					depth += n
				}
			}
		}
		is.Equal(t, depth, 0, "%s: a fold has no end", text)
	}
}

// An attempt shows the request headers that differ from those of the attempt before; the newest failure is open.
func TestAttemptsAreCompared(t *testing.T) {
	attempt := func(n int, status string, headers ...string) *attemptData {
		a := &attemptData{Attempt: wire.Attempt{AttemptNumber: n, Status: status}}
		a.Request.Headers = map[string]string{}
		for i, value := range headers {
			a.Request.Headers["h"+strconv.Itoa(i)] = value
		}
		return a
	}
	all := []*attemptData{attempt(1, "failed", "a", "b", "c"), attempt(2, "failed", "a", "b", "x"),
		attempt(3, "failed", "u", "v", "x"), attempt(4, "failed", "u", "v", "x", "y")}
	model.CompareAttempts(all)
	if all[0].SameAs != 0 || all[1].SameAs != 1 || len(all[1].Changed) != 1 || all[1].Changed["h2"] != "x" {
		t.Errorf("%+v", all[1])
	}
	if all[2].SameAs != 0 || all[3].SameAs != 0 {
		t.Error("attempts with other headers are said to be alike")
	}
	if all[2].Open || !all[3].Open {
		t.Error("the newest failure is not the one that is open")
	}
	renamed := []*attemptData{attempt(1, "failed", "a", "b", "c"), attempt(2, "failed", "a", "b", "")}
	delete(renamed[1].Request.Headers, "h2")
	renamed[1].Request.Headers["new"] = ""
	if model.CompareAttempts(renamed); renamed[1].SameAs != 0 {
		t.Error("an attempt without a header is said to have it")
	}
	model.CompareAttempts(nil)
	ok := []*attemptData{attempt(1, "succeeded")}
	if model.CompareAttempts(ok); ok[0].Open || ok[0].Took() != "<\u00a01\u00a0ms" {
		t.Errorf("%+v", ok[0])
	}
}
