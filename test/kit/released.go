package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// freezing names the version whose files Freeze writes; tools/release/freeze.sh sets it.
const freezing = "RELAY_FREEZE"

// Freeze writes a file of the version that is being released into test/released/VERSION. At any other time it does
// nothing.
func Freeze(t testing.TB, name string, content func() []byte) {
	t.Helper()
	version := os.Getenv(freezing)
	if version == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(Root(t), "test", "released", version, name), content(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Released returns a file of every release, by version. A release without the file is left out; none at all is an
// error.
func Released(t testing.TB, name string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Root(t), "test", "released", "*", name))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no release has %s: %v", name, err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if all[filepath.Base(filepath.Dir(path))], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// MissingLines returns the lines that a text has no more, in any order.
func MissingLines(before, after []byte) (missing []string) {
	now := map[string]bool{}
	for line := range strings.Lines(string(after)) {
		now[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(string(before)) {
		if line = strings.TrimSpace(line); !now[line] {
			missing = append(missing, line)
		}
	}
	return missing
}

// MissingMembers returns which members a JSON text has no more, or with another value. More members are none of them.
func MissingMembers(before, after []byte) []string {
	var was, is any
	for text, into := range map[*[]byte]*any{&before: &was, &after: &is} {
		d := json.NewDecoder(bytes.NewReader(*text))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			return []string{fmt.Sprintf("%q is no JSON: %v", *text, err)}
		}
	}
	return missingMembers("", was, is)
}

func missingMembers(at string, was, is any) (missing []string) {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is no object any more", at)}
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if value, ok := now[name]; ok {
				missing = append(missing, missingMembers(at+"/"+name, was[name], value)...)
			} else {
				missing = append(missing, at+"/"+name+" is gone")
			}
		}
	case []any:
		now, ok := is.([]any)
		if !ok || len(now) != len(was) {
			return []string{fmt.Sprintf("%s has other items", at)}
		}
		for i := range was {
			missing = append(missing, missingMembers(fmt.Sprintf("%s/%d", at, i), was[i], now[i])...)
		}
	default:
		if was != is {
			missing = append(missing, fmt.Sprintf("%s was %v and is %v", at, was, is))
		}
	}
	return missing
}
