package scan

import (
	"net/http"
	"net/url"
	"testing"
)

// Whatever a website answers is read without a panic, and leads to https URLs with a host and without credentials
// alone, within the bounds.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`<!doctype html><html><base href="/b/"><a href="c?x=1">c</a><script src=//cdn.example.net/a.js></script>`,
		`<html><link rel=modulepreload href=m.mjs><script>import("./x.js")//# sourceMappingURL=x.js.map</script>`,
		`<urlset><url><loc> https://example.com/a&amp;b </loc></url></urlset>`,
		`o="js/"+({12:"cart"}[e]||e)+"."+{12:"ab34",7:"cd"}[e]+".js";//# sourceMappingURL=data:application/json;base64,e30=`,
		`)]}'{"sources":["a.ts"],"sourcesContent":["let k = 1"],"sections":[{"map":{"sourcesContent":["x"]}}]}`,
		"AWS_SECRET_ACCESS_KEY=x\nDB=y\n", `{"host":"h","password":"p","protocol":"sftp"}`, "//# sourceMappingURL=https:x",
	} {
		for k := range byte(unknownPath + 1) {
			f.Add(k, "x.js.map", []byte(seed))
		}
	}
	scanner := newScanner(f, http.DefaultTransport, testBudget())
	leakRules := rules(f)
	f.Fuzz(func(t *testing.T, k byte, header string, body []byte) {
		at := &url.URL{Scheme: "https", Host: "example.com", Path: "/static/chunks/a.js"}
		r := &run{scanner: scanner, target: Target{Hostname: "example.com", Rules: leakRules}}
		res := &result{task: task{kind: kind(k) % (unknownPath + 1)}, url: at, header: http.Header{"Sourcemap": {header}},
			body: body}
		r.read(res)
		for i := range probes {
			probes[i].matches(body)
		}
		if len(res.next) > maxNext+2 || len(res.secrets) > maxSecrets {
			t.Fatalf("%d URLs and %d secrets", len(res.next), len(res.secrets))
		}
		for _, next := range res.next {
			if u := next.url; u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" ||
				next.kind == page && u.Host != "example.com" {
				t.Fatalf("leads to %s, kind %d", u, next.kind)
			}
		}
	})
}
