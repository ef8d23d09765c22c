package api_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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
		is.Equal(t, c.do("GET", target, nil).Header.Get("ETag"), etag, "%s: %s, then", target, etag)
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
	must.Do(t, yaml.Unmarshal(c.do("GET", "/openapi.yaml", nil).want(200).raw, &want))
	must.Do(t, json.Unmarshal(c.do("GET", "/openapi.json", nil).want(200).raw, &got))
	text := must.Get(json.Marshal(want))(t)
	must.Do(t, json.Unmarshal(text, &want))
	if !reflect.DeepEqual(want, got) {
		t.Error("the JSON differs from the YAML")
	}
}
