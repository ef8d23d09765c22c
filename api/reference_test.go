package api_test

import (
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var linked = regexp.MustCompile(`(?:src|href)="([^"]+)"`)

// referenceTypes are written out, because the table of the build machine must not matter.
var referenceTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// The page refers to nothing outside of the service, its policy forbids loading anything else, and everything it
// refers to exists.
func TestReferencePageLoadsNothingForeign(t *testing.T) {
	c := newClient(t).as("")
	a := c.do("GET", "/docs", nil).want(200)
	policy := a.Header.Get("Content-Security-Policy")
	const closed = "sandbox allow-scripts allow-popups; default-src 'none'; script-src 'self'; "
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") || !strings.HasPrefix(policy, closed) ||
		strings.Contains(policy, "allow-same-origin") || strings.Contains(policy, "http") ||
		strings.Contains(policy, "unsafe-eval") || strings.Contains(policy, "script-src 'self' 'unsafe-inline'") {
		t.Errorf("served with %v", a.Header)
	}
	// A browser applies the headers of a 304 to the cached page.
	kept := c.do("GET", "/docs", nil, "If-None-Match", a.Header.Get("ETag")).want(http.StatusNotModified)
	if got := kept.Header.Get("Content-Security-Policy"); got != policy {
		t.Errorf("the policy of the 304 is %q", got)
	}
	names := linked.FindAllStringSubmatch(string(a.raw), -1)
	if len(names) < 4 {
		t.Fatalf("the page names %v", names)
	}
	_, err := os.Stat("viewer/swagger-ui-bundle.js")
	viewer := err == nil
	if !viewer && os.Getenv("RELAY_TEST_ENGINES") == "required" {
		t.Error("the viewer is missing: run make build, which downloads it")
	}
	for _, name := range names {
		if fetched := strings.Contains(name[1], "swagger-ui"); fetched && !viewer {
			continue
		}
		if !strings.HasPrefix(name[1], "/") || strings.HasPrefix(name[1], "//") {
			t.Errorf("the page names %s", name[1])
		}
		file := c.do("GET", name[1], nil).want(200)
		kind, got := referenceTypes[path.Ext(name[1])], file.Header.Get("Content-Type")
		if kind != "" && got != kind {
			t.Errorf("%s is %s, want %s", name[1], got, kind)
		}
	}
	if strings.Contains(string(a.raw), "<script>") {
		t.Error("the page has a script of its own, which its policy forbids")
	}
	c.do("GET", "/docs/swagger-ui.LICENSE", nil).want(http.StatusNotFound)
	c.do("GET", "/docs/", nil).want(http.StatusNotFound)
}
