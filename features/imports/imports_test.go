package imports

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the files that imports must write")

// one is a system with the flags that it needs, a world with one of everything, and a world of n objects.
type one struct {
	system string
	args   []string
	small  func() world
	large  func(n int) world
	count  string // of the report of the large world
}

var all = []one{svixWorlds, convoyWorlds, outpostWorlds, hookdeckWorlds}

// eachSystem runs a test for each system.
func eachSystem(t *testing.T, f func(t *testing.T, x one)) {
	for _, x := range all {
		t.Run(x.system, func(t *testing.T) { f(t, x) })
	}
}

// What a system has becomes these files, or is listed. testdata/<system>.* has the files; -update writes them.
func TestImport(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		golden := must.Get(filepath.Abs("testdata"))(t)
		api := newFake(t, x.system, x.small())
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		files := map[string]string{x.system + ".report": strings.ReplaceAll(c.run(0), api.URL, "URL")}
		maps.Copy(files, c.files())
		var secrets []string
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if strings.HasPrefix(name, x.system+".secrets/") {
				secrets = append(secrets, name+": "+files[name])
				delete(files, name)
			}
		}
		files[x.system+".secrets"] = strings.Join(secrets, "\n") + "\n"
		for name, got := range files {
			path := filepath.Join(golden, name)
			if *update {
				must.Do(t, os.WriteFile(path, []byte(got), 0o600))
			}
			is.Equal(t, got, string(must.Get(os.ReadFile(path))(t)), name)
		}
		is.Lacks(t, files[x.system+".yaml"], "planted", "a secret is in the file")
	})
}

func TestWrongToken(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.small())
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		c.env[tokenEnv] = "another"
		out := c.run(1)
		is.Has(t, out, "the token is refused: 401")
		is.Equal(t, len(api.requests), 1, "requests with a wrong token")
		c.env = nil
		is.Has(t, c.run(2), "RELAY_IMPORT_TOKEN: is required")
	})
}

// An overloaded API says how long to wait. It is asked again after that, and the result is as if nothing had been.
func TestRetryAfter(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.small())
		api.fault = func(w http.ResponseWriter, n int, _ *http.Request) bool {
			if n%3 != 0 {
				return false
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"message":"slow down"}`)
			return true
		}
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		is.Has(t, c.run(0), "429")
		is.Equal(t, len(c.pauses) > 0 && c.pauses[0] == 7*time.Second, true, "pauses %v", c.pauses)
	})
}

// An import that ended in the middle goes on where it was, and writes what an uninterrupted one writes.
func TestResume(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.small())
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		c.run(0)
		whole, want := len(api.requests), c.files()
		for stop := 1; stop < whole; stop++ {
			api.requests = nil
			broken := true
			api.fault = func(w http.ResponseWriter, n int, _ *http.Request) bool {
				if broken && n > stop {
					w.WriteHeader(http.StatusBadGateway)
				}
				return broken && n > stop
			}
			c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
			is.Has(t, c.run(1), fmt.Sprintf("%d answers are kept in %s.yaml.state", stop, x.system))
			is.Equal(t, len(c.pauses), maxTries-1)
			appendTo(t, filepath.Join(c.dir, x.system+".yaml.state"), `{"path":"/cut off`)
			broken, api.requests = false, nil
			is.Has(t, c.run(0), fmt.Sprintf("%d answers of an earlier run", stop))
			is.Equal(t, len(api.requests), whole-stop, "requests of the second run after %d of the first", stop)
			is.Same(t, c.files(), want)
		}
	})
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f := must.Get(os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o600))(t)
	must.Get(f.WriteString(text))(t)
	must.Do(t, f.Close())
}

// A list that leads back to an earlier page ends, and nothing is written.
func TestRepeatedPage(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.large(7))
		api.fault = func(w http.ResponseWriter, _ int, r *http.Request) bool {
			again := strings.HasSuffix(r.URL.RawQuery, "=c2") || strings.Contains(r.URL.RawQuery, "=c2&")
			if again { // the first page, which leads to the second one
				query := r.URL.Query()
				for name := range query {
					if strings.HasPrefix(query.Get(name), "c") {
						query.Del(name)
					}
				}
				r.URL.RawQuery = query.Encode()
			}
			return false
		}
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		is.Has(t, c.run(1), "page 2 comes again")
		_, written := c.files()[x.system+".yaml"]
		is.Equal(t, written, false, "a file is written")
	})
}

// Thousands of objects are read and written, none twice.
func TestThousands(t *testing.T) {
	const n = 2000
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.large(n))
		api.perPage = 100
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, x.args...)
		is.Has(t, c.run(0), fmt.Sprintf(x.count, n))
		parts := 0
		for name, text := range c.files() {
			if strings.HasSuffix(name, ".yaml") {
				parts += strings.Count(text, "url: ")
			}
		}
		is.Equal(t, parts, n, "destinations in all files")
	})
}

// The state of an import is an export of it, and so is a directory with the answers.
func TestExport(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.small())
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, append(x.args, "--timeout", "1ns")...)
		c.run(1) // leaves a state without answers
		is.Has(t, strings.Join(slices.Collect(maps.Keys(c.files())), " "), ".state")
		c.args = c.args[:len(c.args)-2]
		c.run(0)
		want := c.files()

		dir := t.TempDir()
		api.requests = nil
		api.perPage = 1000
		for path, answer := range api.world {
			name := filepath.Join(dir, strings.TrimPrefix(path, api.shape.Prefix)+".json")
			must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
			raw := api.raw(path, answer)
			must.Do(t, os.WriteFile(name, raw, 0o600))
		}
		e := newCommand(t, x.system, "")
		e.args = append([]string{x.system, "--export", dir}, x.args...)
		e.run(0)
		is.Equal(t, len(api.requests), 0, "requests for an export")
		is.Same(t, e.files(), want)
	})
}

// A file that relay apply would not read is split. Endpoints stay whole.
func TestLargeFilesAreSplit(t *testing.T) {
	t.Chdir(t.TempDir())
	p := newPlan("svix", "large.yaml")
	const n = 10_000
	for i := range n {
		p.add(&endpoint{Name: fmt.Sprint("shop-", i), Description: strings.Repeat("x", 700),
			Destinations: []*destination{{Name: "a"}}}, "")
	}
	files := must.Get(p.write("large.yaml"))(t)
	is.List(t, files, []string{"large.yaml", "large-2.yaml", "large-3.yaml"})
	endpoints := 0
	for _, name := range files {
		text := string(must.Get(os.ReadFile(name))(t))
		is.Equal(t, len(text) <= maxFile, true, "%s has %d bytes", name, len(text))
		endpoints += strings.Count(text, "\n- name: ")
	}
	is.Equal(t, endpoints, n)
	_, err := p.write("large.yaml")
	is.ErrorIs(t, err, fs.ErrExist)
}

// The end of a token of Svix names the region, as its libraries read it.
func TestSvixRegion(t *testing.T) {
	for token, url := range map[string]string{"testsk_a.eu": "https://api.eu.svix.com", "sk_a": "https://api.svix.com",
		"sk_a.other": "https://api.svix.com", "": "https://api.svix.com"} {
		is.Equal(t, svixURL(token), url, token)
	}
}

// What the command line cannot mean is refused before anything is read.
func TestMisuse(t *testing.T) {
	for _, x := range []struct{ args, want string }{
		{"", "give one system: svix, convoy, outpost, hookdeck"},
		{"svxi", "did you mean svix"},
		{"convoy --api-url http://127.0.0.1:1", "--project is required"},
		{"outpost", "--api-url is required"},
		{"outpost --api-url ftp://a", "must be http:// or https://"},
		{"outpost --api-url http://127.0.0.1:1 --webhook-mode x", "--webhook-mode must be"},
		{"outpost --export . --state x", "--export takes the place"},
		{"outpost --export nothing", "no such file"},
		{"outpost --export . --out .", ".: file already exists; remove it"},
	} {
		c := newCommand(t, "", "")
		c.args = strings.Fields(x.args)
		is.Has(t, c.run(2), x.want)
	}
}

// With --paused nothing is delivered until somebody decides so.
func TestPaused(t *testing.T) {
	eachSystem(t, func(t *testing.T, x one) {
		api := newFake(t, x.system, x.small())
		c := newCommand(t, x.system, api.URL+api.shape.Prefix, append(x.args, "--paused")...)
		c.run(0)
		text := c.files()[x.system+".yaml"]
		is.Equal(t, strings.Count(text, " paused: true\n"), strings.Count(text, " url: "), "paused destinations")
	})
}

// An answer that is not one of the API ends the import, with what it was. The token goes to no other address.
func TestStrangeAnswers(t *testing.T) {
	f := func(want string, answer func(w http.ResponseWriter)) {
		t.Run(want, func(t *testing.T) {
			api := newFake(t, "outpost", outpostWorlds.small())
			api.fault = func(w http.ResponseWriter, n int, _ *http.Request) bool {
				if n == 2 {
					answer(w)
				}
				return n == 2
			}
			c := newCommand(t, "outpost", api.URL)
			is.Has(t, c.run(1), want)
			is.Equal(t, len(api.requests), 2, "requests")
		})
	}
	f("GET /tenants: 302", func(w http.ResponseWriter) {
		w.Header().Set("Location", "/topics")
		w.WriteHeader(http.StatusFound)
	})
	f("/tenants is not there", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) })
	f("GET /tenants: 501", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotImplemented) })
	f("the answer is not JSON", func(w http.ResponseWriter) { fmt.Fprint(w, "<html>\x1b[2J") })
	f("it has no list models", func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":[]}`) })
	f("it has no list models", func(w http.ResponseWriter) { fmt.Fprint(w, `{"models":{}}`) })
	f("an object has no member id", func(w http.ResponseWriter) { fmt.Fprint(w, `{"models":["a"]}`) })
	f("more than 8388608 bytes", func(w http.ResponseWriter) { fmt.Fprint(w, `"`, strings.Repeat("a", maxAnswer), `"`) })
}
