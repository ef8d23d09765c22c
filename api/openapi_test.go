package api_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDocumentIsServed(t *testing.T) {
	c := newClient(t).as("")
	for target, kind := range map[string]string{"/openapi.yaml": "application/yaml", "/openapi.json": "application/json",
		"/openapi-compat.json": "application/json"} {
		a := c.do("GET", target, nil).want(200)
		etag := a.Header.Get("ETag")
		if a.Header.Get("Content-Type") != kind || len(etag) < 10 || a.Header.Get("Access-Control-Allow-Origin") != "*" ||
			a.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", target, a.Header)
		}
		if again := c.do("GET", target, nil).Header.Get("ETag"); again != etag {
			t.Errorf("%s: %s, then %s", target, etag, again)
		}
		for match, want := range map[string]int{
			etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200, "": 200} {
			a := c.do("GET", target, nil, "If-None-Match", match).want(want)
			if want == http.StatusNotModified && (len(a.raw) > 0 || a.Header.Get("ETag") != etag) {
				t.Errorf("%s: 304 with %d bytes and %v", target, len(a.raw), a.Header)
			}
		}
		c.do("POST", target, nil).wantError(404, "not_found", "")
	}
}

// The YAML and the JSON form have the same content.
func TestDocumentFormsAreEqual(t *testing.T) {
	var want, got any
	c := newClient(t)
	if err := yaml.Unmarshal(c.do("GET", "/openapi.yaml", nil).want(200).raw, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c.do("GET", "/openapi.json", nil).want(200).raw, &got); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Error("the JSON differs from the YAML")
	}
}

// Every part is in the document, unchanged.
func TestDocumentHasAllParts(t *testing.T) {
	files, err := filepath.Glob("openapi/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d parts, %v", len(files), err)
	}
	whole, leaves := readYAML(t, documentFile(t)), 0
	var within func(file, place string, part, whole any)
	within = func(file, place string, part, whole any) {
		members, ok := part.(map[string]any)
		if !ok {
			if leaves++; !reflect.DeepEqual(part, whole) {
				t.Errorf("%s: %s is %v in the document, not %v", file, place, whole, part)
			}
			return
		}
		for name, value := range members {
			within(file, place+"/"+name, value, at(whole, name))
		}
	}
	for _, file := range files {
		within(file, "", readYAML(t, file), whole)
	}
	if paths := whole["paths"].(map[string]any); len(paths) < 30 || leaves < 2000 {
		t.Errorf("%d paths and %d values in the parts", len(paths), leaves)
	}
}
