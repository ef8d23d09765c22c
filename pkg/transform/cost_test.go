package transform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// escapedNames returns an object with n names of size characters, each written as an escape.
func escapedNames(n, size int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"%s%d":0`, strings.Repeat(`\u0061`, size), i)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// manyPaths returns operations that look for names that are not there.
func manyPaths(ops, paths int) string {
	all := make([]string, paths)
	for i := range all {
		all[i] = fmt.Sprintf(`"/%s%d"`, strings.Repeat("a", 100), i)
	}
	drop := `{"op":"drop","paths":[` + strings.Join(all, ",") + `]}`
	return "[" + strings.TrimSuffix(strings.Repeat(drop+",", ops), ",") + "]"
}

// The work on names does not grow with the number of operations: each is decoded once. It is counted in allocations,
// one for each decoded name, since time depends on the machine.
func TestNamesAreDecodedOnce(t *testing.T) {
	const names = 500
	body := escapedNames(names, 300)
	few, many := program(t, manyPaths(1, 1)), program(t, manyPaths(8, MaxPaths))
	for name, run := range map[string]func(*Program){
		"apply": func(p *Program) {
			must.Get(p.Apply(t.Context(), input(body), 1<<20))(t)
		},
		"preview": func(p *Program) { previewOf(t, p, body, 1<<20) },
	} {
		one, all := testing.AllocsPerRun(1, func() { run(few) }), testing.AllocsPerRun(1, func() { run(many) })
		if all > one+2*names {
			t.Errorf("%s: %v allocations with one path, %v with 512", name, one, all)
		}
	}
}

// A preview makes no pointers that it does not show.
func TestPreviewMakesNoPointersInVain(t *testing.T) {
	body := `{"l":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 5000), ",") + `]}`
	p := program(t, `[{"op":"drop","paths":["/l/*/x","/l/*/y","/l/*/z"]},{"op":"drop","paths":["/l/*/a"]}]`)
	apply := testing.AllocsPerRun(1, func() {
		must.Get(p.Apply(t.Context(), input(body), 1<<20))(t)
	})
	if preview := testing.AllocsPerRun(1, func() { previewOf(t, p, body, 1<<20) }); preview > apply+2000 {
		t.Errorf("%v allocations, %v without a preview", preview, apply)
	}
}

// Whoever stops waiting ends the operations; a short document is changed all the same.
func TestApplyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := `{"l":[` + strings.TrimSuffix(strings.Repeat("0,", 2*checkEvery), ",") + `]}`
	p := program(t, `[{"op":"drop","paths":["/l/*/x"]}]`)
	if _, err := p.Apply(ctx, input(body), 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := p.Preview(ctx, input(body), 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if out, err := p.Apply(ctx, input(`{}`), 1<<20); err != nil || string(out.Body) != "{}" {
		t.Errorf("%s, %v", out.Body, err)
	}
}

// Pointers to long names are cut at the end of a character.
func TestPointersAreBounded(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	body := fmt.Sprintf(`{"o":[{"*":{%q:{"a":1}}}],"s":{%q:1}}`, long, long)
	preview := previewOf(t, program(t, `[{"op":"pick","paths":["/o/0"]}]`), body, 1<<20)
	got := preview.Steps[0].Changed[0]
	if !strings.HasPrefix(got.Pointer, "/s") || len(got.Before) > maxExcerpt+len("…") {
		t.Errorf("%+v", got)
	}
	preview = previewOf(t, program(t, `[{"op":"pick","paths":["/s/x"]}]`), body, 1<<20)
	for i, want := range []string{"/o", "/s/" + strings.Repeat("é", (MaxPointer-len("/s/…"))/2) + "…"} {
		if got := preview.Steps[0].Changed[i].Pointer; got != want {
			t.Errorf("a pointer of %d bytes, want %d: %.20s", len(got), len(want), got)
		}
	}
}

// Names are read as encoding/json reads them.
func TestNamesAreDecoded(t *testing.T) {
	for _, key := range []string{
		`""`, `"a"`, `"\""`, `"\\"`, `"\/"`, `"\b\f\n\r\t"`, `"\u00e9\u0000"`, `"\ud83d\ude00x"`, `"é\\u0061"`, `"\u2028"`,
	} {
		var want string
		must.Do(t, json.Unmarshal([]byte(key), &want), key)
		is.Equal(t, nameOf(key), want, "%s became", key)
	}
}
