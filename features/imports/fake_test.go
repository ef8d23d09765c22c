package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/schema"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const token = "planted-token-of-the-import"

// world is what a system has: the objects of a list, or one answer, by path.
type world map[string]any

// fake plays the API of a system as its published document describes it: it refuses requests that the document does
// not have, and its answers are valid.
type fake struct {
	*httptest.Server
	t       *testing.T
	system  string
	shape   shape
	schemas map[int]*schema.Schema // of the answers, by operation
	world   world
	perPage int
	// fault answers in place of the API; nil or false: it does not.
	fault func(w http.ResponseWriter, n int, r *http.Request) bool

	mu       sync.Mutex // guards requests
	requests []string
}

// shape is the needed part of a published document.
type shape struct {
	Prefix     string
	Operations []struct {
		Path   string
		List   bool // in pages
		Query  map[string]json.RawMessage
		Answer json.RawMessage
	}
	Defs json.RawMessage `json:"$defs"`
}

func newFake(t *testing.T, system string, w world) *fake {
	t.Helper()
	f := &fake{t: t, system: system, world: w, perPage: 2, schemas: map[int]*schema.Schema{}}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/"+system+".json"))(t), &f.shape))
	for i, o := range f.shape.Operations {
		text := fmt.Sprintf(`{"allOf":[%s],"$defs":%s}`, o.Answer, f.shape.Defs)
		f.schemas[i] = must.Get(schema.Compile([]byte(text)))(t)
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message":"invalid \u001b[2Jtoken"}`)
		return
	case f.fault != nil && f.fault(w, len(f.requests), r):
		return
	}
	path := r.URL.EscapedPath()
	for i, o := range f.shape.Operations {
		if !regexp.MustCompile(o.Path).MatchString(path) {
			continue
		}
		for name := range r.URL.Query() {
			f.checkQuery(r, name, o.Query[name])
		}
		answer, known := f.world[path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"not found"}`)
			return
		}
		raw := must.Get(json.Marshal(answer))(f.t)
		if o.List {
			raw = f.page(r.URL.Query(), answer.([]any))
		}
		spent := 0
		if fault, err := f.schemas[i].Check(raw, &spent); fault != nil || err != nil {
			f.t.Errorf("GET %s: the test answers what the document does not have: %+v %v\n%.500s", path, fault, err, raw)
		}
		_, _ = w.Write(raw)
		return
	}
	f.t.Errorf("GET %s is not in the document", path)
	w.WriteHeader(http.StatusNotFound)
}

// raw returns the answer at a path as an export has it.
func (f *fake) raw(path string, answer any) []byte {
	for _, o := range f.shape.Operations {
		if o.List && regexp.MustCompile(o.Path).MatchString(path) {
			return f.page(nil, answer.([]any))
		}
	}
	return must.Get(json.Marshal(answer))(f.t)
}

// checkQuery compares a parameter with the document.
func (f *fake) checkQuery(r *http.Request, name string, rule json.RawMessage) {
	value := []byte(strconv.Quote(r.URL.Query().Get(name)))
	if bytes.Contains(rule, []byte(`"integer"`)) || bytes.Contains(rule, []byte(`"boolean"`)) {
		value = []byte(r.URL.Query().Get(name))
	}
	if rule == nil {
		f.t.Errorf("GET %s: the document has no parameter %s", r.URL, name)
		return
	}
	spent := 0
	fault, err := must.Get(schema.Compile(rule))(f.t).Check(value, &spent)
	if fault != nil || err != nil {
		f.t.Errorf("GET %s: %s: %+v %v", r.URL, name, fault, err)
	}
}

// page returns a page of a list, in the form of the system.
func (f *fake) page(query url.Values, all []any) []byte {
	cursor := map[string]string{"svix": "iterator", "convoy": "next_page_cursor"}[f.system]
	if cursor == "" {
		cursor = "next"
	}
	begin, _ := strconv.Atoi(strings.TrimPrefix(query.Get(cursor), "c"))
	end := min(begin+f.perPage, len(all))
	var next any
	if end < len(all) {
		next = fmt.Sprint("c", end)
	}
	items := all[begin:end:end]
	var answer any
	switch f.system {
	case "svix":
		answer = map[string]any{"data": items, "iterator": fmt.Sprint("c", end), "prevIterator": nil, "done": next == nil}
	case "convoy":
		last := fmt.Sprint("c", end) // it is there on the last page too
		answer = map[string]any{"status": true, "message": "fetched", "data": map[string]any{"content": items,
			"pagination": map[string]any{"per_page": f.perPage, "has_next_page": next != nil, "next_page_cursor": last}}}
	default:
		pagination := map[string]any{"order_by": "created_at", "dir": "desc", "limit": f.perPage}
		if next != nil || f.system == "outpost" {
			pagination["next"] = next
		}
		answer = map[string]any{"models": items, "count": len(all), "pagination": pagination}
	}
	return must.Get(json.Marshal(answer))(f.t)
}

// object is an object of a system, from names and values.
func object(members ...any) map[string]any {
	o := map[string]any{}
	for i := 0; i < len(members); i += 2 {
		o[members[i].(string)] = members[i+1]
	}
	return o
}

// command is a run of relay import in a directory of its own.
type command struct {
	t    *testing.T
	dir  string
	args []string
	env  map[string]string
	// pauses are those before further tries.
	pauses []time.Duration
}

func newCommand(t *testing.T, system, url string, args ...string) *command {
	c := &command{t: t, dir: t.TempDir(), env: map[string]string{tokenEnv: token}}
	t.Chdir(c.dir)
	c.args = append([]string{system, "--api-url", url}, args...)
	return c
}

// run runs the command without pauses between tries, and returns its output.
func (c *command) run(want int) string {
	c.t.Helper()
	var out bytes.Buffer
	pause := func(_ context.Context, d time.Duration) error {
		c.pauses = append(c.pauses, d)
		return nil
	}
	code := importWith(c.t.Context(), cli.Call{Args: c.args, Getenv: func(name string) string { return c.env[name] },
		Stdout: &out, Stderr: &out}, pause)
	must.Equal(c.t, code, want, "exit code: %s", &out)
	is.Lacks(c.t, out.String(), "planted")
	for line := range strings.Lines(out.String()) {
		is.Equal(c.t, line, cli.Printable(strings.TrimSuffix(line, "\n"))+"\n", "a terminal acts on a line")
	}
	return out.String()
}

// files returns all files that the command has written, by name. Nobody else can read any.
func (c *command) files() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	must.Do(c.t, filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == c.dir {
			return err
		}
		info := must.Get(d.Info())(c.t)
		is.Equal(c.t, info.Mode().Perm()&0o077, 0, "others may read %s", path)
		if !d.IsDir() {
			name := must.Get(filepath.Rel(c.dir, path))(c.t)
			all[name] = string(must.Get(os.ReadFile(path))(c.t))
		}
		return nil
	}))
	return all
}
