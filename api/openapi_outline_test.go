package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write testdata/openapi.txt")

// The document promises exactly what testdata/openapi.txt lists: a change of the API shows there, a change of its texts
// does not.
func TestDocumentOutline(t *testing.T) {
	const file = "testdata/openapi.txt"
	c := must.Get(loadContract())(t)
	got := []string{"# Made by: go test ./api -run TestDocumentOutline -update"}
	outline(c.source, "", func(line string) { got = append(got, line) })
	if *update {
		must.Do(t, os.WriteFile(file, []byte(strings.Join(got, "\n")+"\n"), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	if diff := gocmp.Diff(strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), got); diff != "" {
		t.Errorf("the document has changed (-before +now):\n%s", diff)
	}
}

// outline adds a line for each mapping of the document, with its plain values, and then those inside it.
func outline(v any, place string, add func(line string)) {
	var of, inner []string
	m := members(v)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		isName := strings.HasSuffix(place, "/properties") // else it is a keyword
		switch x := m[name]; {
		case !isName && slices.Contains([]string{"description", "summary", "title", "example", "examples"}, name):
		case isPlain(x):
			text, err := json.Marshal(x)
			if err != nil {
				panic(err)
			}
			of = append(of, name+":"+strings.Trim(string(text), `"`))
		default:
			inner = append(inner, name)
		}
	}
	if len(of) > 0 || len(inner) == 0 {
		add(strings.TrimSuffix(place+" "+strings.Join(of, " "), " "))
	}
	for _, name := range inner {
		if list, ok := m[name].([]any); ok {
			for i, x := range list {
				outline(x, fmt.Sprint(place, "/", name, "/", i), add)
			}
			continue
		}
		outline(m[name], place+"/"+name, add)
	}
}

// isPlain reports whether a value has no mapping inside.
func isPlain(v any) bool {
	list, isList := v.([]any)
	_, isMap := v.(map[string]any)
	return !isMap && (!isList || !slices.ContainsFunc(list, func(x any) bool { return !isPlain(x) }))
}
