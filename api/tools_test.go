package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Each tool has a plain and a versioned name and a checksum beside each; a browser saves it and never runs it.
func TestToolsAreServed(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.Version = "1.2.3-dev+a6d2758" }).as("")
	for file, source := range map[string]string{
		"relay-forward.mjs":               "../sdk/forward/relay-forward.mjs",
		"relay-forward-1.2.3-dev.mjs":     "../sdk/forward/relay-forward.mjs",
		"relay-fixture-run.mjs":           "../sdk/fixture-run/relay-fixture-run.mjs",
		"relay-fixture-run-1.2.3-dev.mjs": "../sdk/fixture-run/relay-fixture-run.mjs",
	} {
		want := must.Get(os.ReadFile(source))(t)
		sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(want), file)
		for name, content := range map[string]string{file: string(want), file + ".sha256": sum} {
			a := c.do("GET", "/tools/"+name, nil).want(http.StatusOK)
			is.Equal(t, string(a.raw), content, "%s is served with other content: %.100q", name, a.raw)
			again := c.do("GET", "/tools/"+name, nil, "If-None-Match", a.Header.Get("ETag")).want(http.StatusNotModified)
			for _, h := range []http.Header{a.Header, again.Header} {
				if h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" ||
					h.Get("X-Content-Type-Options") != "nosniff" ||
					h.Get("Content-Disposition") != `attachment; filename="`+name+`"` {
					t.Errorf("%s is served with %v", name, h)
				}
			}
		}
	}
	for _, path := range []string{"/tools", "/tools/relay-forward-1.2.4.mjs", "/tools/../sdk/sdk.go"} {
		c.do("GET", path, nil).want(http.StatusNotFound)
	}
}

// The folder has a page that lists the files with their checksums. It is no page of the dashboard.
func TestToolsAreListed(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.Version = "1.2.3" }).as("")
	a := c.do("GET", "/tools/", nil).want(http.StatusOK)
	sum, _, _ := strings.Cut(string(c.do("GET", "/tools/relay-forward-1.2.3.mjs.sha256", nil).want(200).raw), " ")
	text := strings.ReplaceAll(string(a.raw), "<wbr>", "")
	if !strings.Contains(text, `href="/tools/relay-forward-1.2.3.mjs"`) || !strings.Contains(text, sum) ||
		a.Header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
		t.Errorf("%v %s", a.Header, a.raw)
	}
	for _, path := range []string{"/tools", "/tools/relay-forward-0.9.9.mjs"} {
		if a := c.do("GET", path, nil).want(404); !strings.Contains(string(a.raw), "/tools/ lists") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	missing := strings.Contains(text, "built without npm")
	if tarball := c.do("GET", "/tools/eventrelay-sdk-1.2.3.tgz", nil); missing != (tarball.Status == 404) {
		t.Errorf("the package of the SDK: %d\n%s", tarball.Status, a.raw)
	}
}
