package scan

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// plant fills the website with keys, and returns those that a scan must find, with their locations.
func (s *site) plant() map[string]string {
	const shop = "https://shop"
	s.html("/", `<!-- `+key("comment")+` --><body onload="init('`+key("event")+`')">
<script type="application/json">{"k":"`+key("island")+`"}</script><p data-k=`+key("attribute")+`>
<a href="/a">1</a> <a href="http://shop.example.com/plain">2</a> <a href="/logout?now=1">3</a> <a href="/doc.pdf">4</a>
<a href="https://user:pass@shop.example.com:`+s.port+`/user">5</a><a href="mailto:a@example.com">6</a>
<a href="https://evil.example.com:`+s.port+`/page">7</a> <a href="/moved">8</a> <a href="/away">9</a>
<a href="/busy">10</a>
<a href="/zipped">11</a> <a href="/a#again">12</a> <a href="/loop">13</a> <a href="javascript:alert(1)">14</a>
<script src="/static/app.js?v=3"></script><script src="https://cdn.example.com:`+s.port+`/cdn.js"></script>
<link rel="modulepreload" href="/static/module.mjs"><script>import("./inline.js")</script>`)
	s.html("/a", `<a href="/b">b</a>`)
	s.html("/b", `<a href="/c">c</a>`)
	s.html("/c", key("depth 3")+` <a href="/d">d</a>`)
	s.html("/d", key("depth 4"))
	s.html("/plain", key("plain"))
	s.html("/user", key("user"))
	s.html("/logout", key("logout"))
	s.html("/doc.pdf", key("pdf"))
	s.html("/from-sitemap", key("sitemap"))
	s.text("/sitemap.xml", "text/xml",
		"<urlset><url><loc> https://shop.example.com:"+s.port+"/from-sitemap</loc></url></urlset>")
	s.on("/moved", http.RedirectHandler("https://www.example.com:"+s.port+"/new?utm=1", http.StatusFound).ServeHTTP)
	s.html("www/new", key("redirected"))
	s.on("/away", http.RedirectHandler("https://evil.example.com:"+s.port+"/away", http.StatusFound).ServeHTTP)
	s.on("/loop", http.RedirectHandler("/loop", http.StatusFound).ServeHTTP)
	var busy sync.Once
	s.on("/busy", func(w http.ResponseWriter, _ *http.Request) {
		status, text := 200, key("busy")
		busy.Do(func() { status, text = 429, "" })
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	s.on("/zipped", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(zipped([]byte(key("nested gzip")))))
	})
	const script = "text/javascript"
	publishable := "pk_" + strings.TrimPrefix(key("publishable"), "sk_")
	s.text("/static/app.js", script, `const a="`+key("script")+`",p="`+publishable+`";import("./lazy.js");
load("static/js/named.js");r.u=e=>"static/js/"+({7:"cart"}[e]||e)+"."+{7:"ab12",8:"cd34"}[e]+".js";
//# sourceMappingURL=app.js.map`)
	s.text("/static/lazy.js", script, key("lazy"))
	s.text("/static/js/named.js", script, key("named"))
	s.text("/static/js/cart.ab12.js", script, key("table with names"))
	s.text("/static/js/8.cd34.js", script, key("table")+"\n//# sourceMappingURL=data:application/json;base64,"+
		base64.StdEncoding.EncodeToString([]byte(mapOf(s.t, "inline.ts", key("inline map")))))
	s.text("/inline.js", script, key("inline import"))
	s.on("/static/module.mjs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("SourceMap", "/maps/module.map")
		io.WriteString(w, key("module"))
	})
	s.text("/static/app.js.map", "application/json",
		mapOf(s.t, "src/app.ts", "line 1\nline 2\nkey = '"+key("map")+"'\n"))
	s.text("/maps/module.map", "application/json",
		`{"version":3,"sections":[{"map":`+mapOf(s.t, "m.ts", key("section"))+`}]}`)
	s.text("cdn/cdn.js", script, key("cdn"))
	s.html("evil/page", key("other host"))
	s.html("evil/away", key("redirected away"))
	s.text("/.env", "text/plain", "# settings\nSTRIPE_KEY="+key("env")+"\n")
	s.text("/.git/config", "text/plain", "[core]\n\tbare = false\n")
	return map[string]string{
		key("comment"): shop + "/", key("event"): shop + "/", key("island"): shop + "/", key("attribute"): shop + "/",
		key("depth 3"): shop + "/c", key("user"): shop + "/user", key("sitemap"): shop + "/from-sitemap",
		key("redirected"): "https://www/new", key("busy"): shop + "/busy", key("nested gzip"): shop + "/zipped",
		key("script"): shop + "/static/app.js", key("lazy"): shop + "/static/lazy.js",
		key("named"): shop + "/static/js/named.js", key("table with names"): shop + "/static/js/cart.ab12.js",
		key("table"): shop + "/static/js/8.cd34.js", key("inline map"): shop + "/static/js/8.cd34.js inline.ts:1",
		key("inline import"): shop + "/inline.js", key("module"): shop + "/static/module.mjs",
		key("map"): shop + "/static/app.js.map src/app.ts:3", key("section"): shop + "/maps/module.map m.ts:1",
		key("env"): shop + "/.env",
	}
}

// Every key in pages, chunks, source maps and exposed files is found, at its location, and no other. No request leaves
// the verified hosts. The report says what was not looked at.
func TestPlantedSite(t *testing.T) {
	s := newSite(t)
	want := s.plant()
	got := s.scan(testBudget())
	if diff := gocmp.Diff(want, got.secrets); diff != "" {
		t.Errorf("secrets: -want +got\n%s", diff)
	}
	is.List(t, got.files, []string{"/.env", "/.git/config"}, "exposed files")
	for _, request := range s.requests() {
		if !strings.HasPrefix(request, "shop/") && request != "www/new?utm=1" {
			t.Errorf("a request to %s", request)
		}
	}
	cdn := "cdn.example.com:" + s.port
	if !slices.Equal(got.ThirdParty, []string{cdn}) || got.Error != "" || got.BudgetExhausted != "" || got.CatchAll {
		t.Errorf("%+v", got.Report)
	}
	for reason, paths := range map[string][]string{
		skippedQuery: {"/logout"}, skippedFileType: {"/doc.pdf"}, skippedDepth: {"/d"}, skippedRedirect: {"/away", "/loop"},
	} {
		is.List(t, got.skippedFor(reason), paths, "skipped for %s", reason)
	}
	is.Equal(t, s.counts()["shop/loop"], maxRedirects+1, "requests in a loop of redirects")
	again := 0
	for _, n := range s.counts() {
		if n > 1 {
			again++
		}
	}
	if again != 2 { // the loop, and what was busy
		t.Errorf("%v", s.counts())
	}
}

// A website that answers every path with 200, with one page, or with the path in it, exposes nothing.
func TestCatchAll(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<!doctype html><div id=app></div>\n[core]\nA=1\nservices:\n-----BEGIN PRIVATE KEY-----\n")
		},
		"a text":  func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "Cannot GET %s\n", r.URL.Path) },
		"JSON":    func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"path":%q,"error":null}`, r.URL.Path) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"its name": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.TrimPrefix(r.URL.Path, "/"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.other = answer
			if got := s.scan(testBudget()); len(got.files) > 0 || len(got.secrets) > 0 || !got.CatchAll {
				t.Errorf("%v, %v, %+v", got.files, got.secrets, got.Report)
			}
		})
	}
}

// A key on the one page of a website that answers every path with it is found at the start page, once.
func TestKeyOnCatchAll(t *testing.T) {
	s := newSite(t)
	s.other = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<!doctype html><a href="/a">a</a><p>`+key("everywhere"))
	}
	got := s.scan(testBudget())
	if diff := gocmp.Diff(map[string]string{key("everywhere"): "https://shop/"}, got.secrets); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Each probe knows its file by the content.
func TestProbes(t *testing.T) {
	exposed := map[string]string{
		"/.env": "\n# x\nexport A_B=1", "/.env.local": "A=", "/.env.production": "A_1 = x",
		"/.git/config": "[core]\n\tx = 1", "/.git/HEAD": "ref: refs/heads/main\n",
		"/config.json": `{"db":[{"db_password":"hunter22"}]}`, "/.npmrc": "//npm.example.com/:_authToken=x",
		"/.aws/credentials":   "[default]\naws_secret_access_key = x",
		"/docker-compose.yml": "version: '3'\nservices:\n  a:\n",
		"/wp-config.php.bak":  "<?php\ndefine( 'DB_PASSWORD', 'x' );",
		"/backup.sql":         "-- MySQL dump 10.13", "/.DS_Store": "\x00\x00\x00\x01Bud1\x00",
		"/server.key": "-----BEGIN " + "PRIVATE KEY-----\nx", "/id_rsa": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n",
		"/.vscode/sftp.json": `{"host":"h","password":"p"}`, "/actuator/env": `{"propertySources":[{}]}`,
	}
	harmless := map[string]string{
		"/.env": "hello\nA=1", "/.env.local": "<html>\nA=1", "/.env.production": "", "/.git/config": "x [core]",
		"/.git/HEAD": "ref: nothing", "/config.json": `{"apiKey":"AIza-public","public_secret":"x23456","password":null}`,
		"/.npmrc": "registry=https://example.com", "/.aws/credentials": "[default]", "/docker-compose.yml": "x services:",
		"/wp-config.php.bak": "DB_PASSWORD", "/backup.sql": "select", "/.DS_Store": "Bud1", "/server.key": "PRIVATE KEY",
		"/id_rsa": "-----BEGIN PUBLIC KEY-----", "/.vscode/sftp.json": `{"host":"h"}`,
		"/actuator/env": `{"propertySources":[]}`,
	}
	if len(exposed) != len(probes) || len(harmless) != len(probes) || len(probes) != 16 {
		t.Errorf("%d probes, %d and %d examples", len(probes), len(exposed), len(harmless))
	}
	for i := range probes {
		p := &probes[i]
		if !p.matches([]byte(exposed[p.path])) {
			t.Errorf("%s: does not match %q", p.path, exposed[p.path])
		}
		if p.matches([]byte(harmless[p.path])) {
			t.Errorf("%s: matches %q", p.path, harmless[p.path])
		}
	}
}

// The budgets of pages, resources and bytes end a scan, and the report names the first that did.
func TestBudgets(t *testing.T) {
	f := func(name string, budget Budget, set func(s *site), want func(s *site, got *scan) bool) {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			set(s)
			if got := s.scan(budget); !want(s, got) {
				t.Errorf("%+v, %d requests", got.Report, len(s.counts()))
			}
		})
	}
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	f("10,000 pages", testBudget(), func(s *site) {
		s.html("/", list(10_000, `<a href="/p%d">x</a>`)+`<script src="/last.js"></script>`)
		s.text("/last.js", "", key("behind the links"))
	}, func(s *site, got *scan) bool {
		return got.BudgetExhausted == budgetPages && got.Pages == 50 && len(got.Skipped) == maxSkipped &&
			got.More+len(got.Skipped) >= 10_000-50 && len(s.counts()) == 50+len(probes)+2+2 &&
			got.secrets[key("behind the links")] != ""
	})
	f("1,000 scripts", testBudget(), func(s *site) { s.html("/", list(1_000, `<script src="/s%d.js"></script>`)) },
		func(s *site, got *scan) bool {
			return got.BudgetExhausted == budgetResources && got.Resources == 300 && len(s.counts()) == 301
		})
	small := testBudget()
	small.Body, small.Map, small.Total = 1<<20, 2<<20, 4<<20
	bomb := zipped(zipped(bytes.Repeat([]byte{0}, 8<<20))) // more than any of these budgets
	f("a bomb", small, func(s *site) {
		s.html("/", key("before")+`<a href="/bomb">x</a><a href="/cut">x</a><a href="/empty">x</a>
			<script src="/a.js"></script>`)
		s.on("/bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		})
		s.on("/cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped([]byte(key("cut")))[:30])
		})
		s.on("/empty", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 20_000 { // blocks that stand for nothing
				_ = z.Flush()
			}
			_, _ = io.WriteString(z, key("empty"))
			_ = z.Close()
		})
		s.text("/a.js", "",
			strings.Repeat("x", 1<<20-100)+" "+key("at the end")+strings.Repeat(" ", 200)+key("behind it"))
	}, func(_ *site, got *scan) bool {
		return slices.Equal(got.skippedFor(skippedTooLarge), []string{"/a.js", "/bomb"}) &&
			slices.Equal(got.skippedFor(skippedUnreadable), []string{"/cut", "/empty"}) && got.Bytes < 4<<20 &&
			got.secrets[key("at the end")] != "" && got.secrets[key("before")] != "" && len(got.secrets) == 2
	})
	f("bytes", small, func(s *site) {
		s.html("/", list(20, `<a href="/p%d">x</a>`))
		s.other = func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/p") {
				io.WriteString(w, r.URL.Path+strings.Repeat(" ", 1<<19))
			} else {
				http.NotFound(w, r)
			}
		}
	}, func(_ *site, got *scan) bool {
		return got.BudgetExhausted == budgetBytes && got.Bytes <= 4<<20+maxConcurrent*32<<10 &&
			len(got.skippedFor(skippedBudget)) >= 20-9
	})
	f("a deep map", testBudget(), func(s *site) {
		s.html("/", `<script src="/a.js"></script>`)
		s.text("/a.js", "", "//# sourceMappingURL=a.map")
		s.text("/a.map", "", strings.Repeat(`{"sections":[{"map":`, 1000)+strings.Repeat("}]}", 1000)+key("in it"))
	}, func(_ *site, got *scan) bool {
		return slices.Equal(got.skippedFor(skippedUnreadable), []string{"/a.map"}) && got.secrets[key("in it")] != ""
	})
}

// A name whose address is, or becomes, one that is not public ends the scan before anything is sent there. So does a
// start page without an answer or without a valid certificate. A proof that ends meanwhile ends the requests.
func TestScanEnds(t *testing.T) {
	s := newSite(t)
	s.html("/", `<a href="/a">a</a>`)
	s.dns.SetAddrs("shop.example.com", "127.1.0.1")
	if got := s.scan(testBudget()); got.Error != errorBlockedAddress || len(s.counts()) != 0 {
		t.Errorf("a private address: %+v", got.Report)
	}
	s.Config.SetKeepAlivesEnabled(false)
	before := s.dns.Asked("shop.example.com")
	s.dns.SetAddrsByQuestion("shop.example.com", func(nth int) []string {
		if nth <= before+1 {
			return []string{"127.0.0.1"}
		}
		return []string{"127.1.0.1"}
	})
	if got := s.scan(testBudget()); got.Error != errorBlockedAddress ||
		len(s.counts()) > maxConcurrent {
		t.Errorf("another address later: %+v, %v", got.Report, s.counts())
	}
	s.dns.SetAddrsByQuestion("shop.example.com", func(int) []string { return nil })
	if got := s.scan(testBudget()); got.Error != errorUnreachable {
		t.Errorf("no address: %+v", got.Report)
	}
	s.dns.SetAddrs("shop.example.com", "127.0.0.1")
	s.html("/", `<a href="/p0">x</a>`)
	var mu sync.Mutex // guards ended
	ended := false
	s.on("/p0", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		io.WriteString(w, `<!doctype html><a href="/later">x</a>`)
	})
	got := s.scanWhile(testBudget(), func(string) bool {
		mu.Lock()
		defer mu.Unlock()
		return !ended
	})
	if !slices.Contains(got.skippedFor(skippedNotVerified), "/later") || s.counts()["shop/later"] != 0 {
		t.Errorf("%+v, %v", got.Report, s.counts())
	}
}

// A redirect leads to proven hosts only: not to names and addresses of this machine, to another port, scheme or name,
// and not with credentials.
func TestRedirectsToOtherHosts(t *testing.T) {
	s := newSite(t)
	var links strings.Builder
	var want []string
	for i, target := range []string{
		"https://localhost:" + s.port, "https://127.0.0.1:" + s.port, "https://[::1]:" + s.port,
		"https://2130706433:" + s.port, "https://0x7f.1:" + s.port, "//evil.example.com:" + s.port,
		"http://shop.example.com:" + s.port, "https://user:pass@shop.example.com:" + s.port, "https://shop.example.com",
		"https://shop.example.com.:" + s.port, "https://shop.example.com:" + s.port + "@evil.example.com", "file:///etc",
		"https://", "https://%zz",
	} {
		path := fmt.Sprintf("/r%02d", i)
		s.on(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target+"/x")
			w.WriteHeader(http.StatusFound)
		})
		links.WriteString(`<a href="` + path + `"></a>`)
		want = append(want, path)
	}
	s.html("/", links.String())
	got := s.scan(testBudget())
	is.List(t, got.skippedFor(skippedRedirect), want, "skipped")
	for _, request := range s.requests() {
		if strings.HasSuffix(request, "/x") {
			t.Errorf("a request to %s", request)
		}
	}
}

// A website with the certificate of another one gets no request.
func TestCertificateOfAnotherWebsite(t *testing.T) {
	s := newSite(t)
	s.dns.SetAddrs("shop.other.test", "127.0.0.1")
	report, err := newScanner(t, websites.Transport(t, s.dns, s.Site), testBudget()).Run(t.Context(),
		Target{Hostname: "shop.other.test:" + s.port, Rules: rules(t), Verified: func(string) bool { return true }},
		func(Found) {}, func(Progress) {})
	if err != nil || report.Error != errorUnreachable || len(s.counts()) != 0 {
		t.Errorf("%+v, %v, %v", report, s.counts(), err)
	}
}

// An index of sitemaps leads to ten of them. An index in an index is not read, and the report says so.
func TestSitemapIndex(t *testing.T) {
	s := newSite(t)
	at := "https://shop.example.com:" + s.port
	index := "<sitemapindex><sitemap><loc>https://evil.example.com/map.xml</loc></sitemap>"
	want := map[string]string{}
	for i := range maxSitemaps + 2 {
		index += fmt.Sprintf("<sitemap><loc>%s/maps/%d.xml</loc></sitemap>", at, i)
		path := fmt.Sprintf("/page%d", i)
		s.text(fmt.Sprintf("/maps/%d.xml", i), "", "<urlset><url><loc>"+at+path+"</loc></url></urlset>")
		s.html(path, key(path))
		if 0 < i && i < maxSitemaps {
			want[key(path)] = "https://shop" + path
		}
	}
	s.text("/maps/0.xml", "", "<sitemapindex ><sitemap><loc>"+at+"/maps/inner.xml</loc></sitemap>")
	s.text("/sitemap.xml", "", index)
	got := s.scan(testBudget())
	if diff := gocmp.Diff(want, got.secrets); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !slices.Equal(got.skippedFor(skippedBudget), []string{"/maps/10.xml", "/maps/11.xml"}) ||
		!slices.Equal(got.skippedFor(skippedDepth), []string{"/maps/inner.xml"}) {
		t.Errorf("%+v", got.Report)
	}
}

// A script that names no source map is asked for one by its usual name. The report does not name it if there is none.
func TestMapWithoutAName(t *testing.T) {
	s := newSite(t)
	s.html("/", `<script src="/a.js?v=1"></script><script src="/b.js"></script><script src="/c.js"></script>`)
	for _, script := range []string{"/a.js", "/b.js", "/c.js"} {
		s.text(script, "", script)
	}
	s.text("/a.js.map", "", mapOf(t, "src/a.ts", key("map without a name")))
	s.text("/b.js.map", "", key("something else"))
	got := s.scan(testBudget())
	want := map[string]string{key("map without a name"): "https://shop/a.js.map src/a.ts:1"}
	if diff := gocmp.Diff(want, got.secrets); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := s.counts()["shop/c.js.map"]; n != 1 || len(got.Skipped) != 0 {
		t.Errorf("%d requests for a map that is not there, %+v", n, got.Report)
	}
}

// fakeSite answers in a bubble with a fake clock.
type fakeSite struct {
	mu    sync.Mutex // guards the fields below
	sent  []time.Time
	now   int
	most  int
	reply func(path string) (status int, body string, after time.Duration)
}

func (f *fakeSite) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.sent = append(f.sent, time.Now())
	f.now++
	f.most = max(f.most, f.now)
	status, body, after := f.reply(req.URL.Path)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	select {
	case <-time.After(after):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (f *fakeSite) run(ctx context.Context, t *testing.T) (*Report, error) {
	return newScanner(t, f, DefaultBudget()).Run(ctx, Target{Hostname: "shop.example.com", Rules: rules(t),
		Verified: func(host string) bool { return host == "shop.example.com" }}, func(Found) {}, func(Progress) {})
}

// A host gets five requests a second and four at a time, half as many after each refusal.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSite{}
		f.reply = func(path string) (int, string, time.Duration) {
			switch {
			case path == "/":
				return 200, `<html><a href="/a"></a><a href="/b"></a><a href="/refuses"></a><a href="/c"></a><a href="/d"></a>
<a href="/e"></a><a href="/f"></a>`, time.Second
			case path == "/refuses":
				return 503, "", 0
			}
			return 404, "", time.Second
		}
		report := must.Get(f.run(t.Context(), t))(t)
		is.Equal(t, f.most, maxConcurrent, "at a time")
		is.Equal(t, len(f.sent), 1+len(probes)+2+6+maxTries, "requests")
		var slowest time.Duration
		for i, at := range f.sent[1:] {
			gap := at.Sub(f.sent[i])
			if slowest = max(slowest, gap); gap < 200*time.Millisecond {
				t.Errorf("request %d after %v", i+1, gap)
			}
		}
		if slowest < 800*time.Millisecond {
			t.Errorf("no slower after refusals: %v at most", slowest)
		}
		if !slices.Contains(report.Skipped, Skipped{"/refuses", skippedRefused}) {
			t.Errorf("%+v", report)
		}
	})
}

// A website that answers slowly ends the time of the scan, one request the time of a request. A node that stops ends
// the scan without a report.
func TestSlowSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fakeSite{reply: func(path string) (int, string, time.Duration) {
			if path == "/" {
				var b strings.Builder
				for i := range 60 {
					fmt.Fprintf(&b, `<a href="/p%d"></a>`, i)
				}
				return 200, "<html>" + b.String(), 0
			}
			return 200, "x", time.Hour
		}}
		report, err := f.run(t.Context(), t)
		if took := time.Since(start); err != nil || took != DefaultBudget().Time || report.BudgetExhausted != budgetPages {
			t.Errorf("after %v: %+v, %v", took, report, err)
		}
		if s := (&scan{Report: report}).skippedFor(skippedTimeout); len(s) == 0 {
			t.Errorf("%+v", report)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if report, err := f.run(ctx, t); !errors.Is(err, context.DeadlineExceeded) || report != nil {
			t.Errorf("%+v, %v", report, err)
		}
		f.reply = func(string) (int, string, time.Duration) { return 200, "", time.Hour }
		if report, err := f.run(t.Context(), t); err != nil || report.Error != errorUnreachable {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// A source map of some kilobytes, compressed, may name millions of sections: they are read one after the other.
func TestMapOfManySections(t *testing.T) {
	body := `{"sections":[` + strings.Repeat("{},", 1_000_000) + `{"map":` + mapOf(t, "a.ts", key("last section")) + `}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := readBody(t, sourceMap, body)
	runtime.ReadMemStats(&after)
	if len(res.secrets) != 1 || res.secrets[0].File != "a.ts" {
		t.Errorf("finds %+v", res.secrets)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 32<<20 {
		t.Errorf("%d bytes take %d bytes of memory", len(body), taken)
	}
}

// A page's base may make each of its links long: what they take together is bounded, and there is room for scripts.
func TestLongLinks(t *testing.T) {
	base := "https://shop.example.com/" + strings.Repeat("a", 1_900) + "/"
	body := `<html><base href="` + base + `">` + strings.Repeat("<a href=?1>", maxNext) +
		strings.Repeat("<script src=1></script>", maxNext)
	res := readBody(t, page, body)
	bytes := 0
	for _, n := range res.next {
		bytes += len(n.url.String())
	}
	for _, u := range res.unfollowed {
		bytes += len(u.url.String())
	}
	if bytes > 5<<20 || len(res.next) < 500 || len(res.unfollowed) < 500 {
		t.Errorf("%d bytes of URLs, %d scripts, %d links", bytes, len(res.next), len(res.unfollowed))
	}
	is.Equal(t, len(res.next)+len(res.unfollowed)+res.dropped, 2*maxNext, "URLs are counted")
	if res = readBody(t, page, `<html><base href="`+base+`"><a href="`+strings.Repeat("b", 200)+`">`); len(res.next) != 0 {
		t.Errorf("a URL of %d bytes would be requested", len(res.next[0].url.String()))
	}
}

// readBody reads the body of an answer of shop.example.com.
func readBody(t *testing.T, k kind, body string) *result {
	t.Helper()
	r := &run{target: Target{Hostname: "shop.example.com", Rules: rules(t)}}
	at := &url.URL{Scheme: "https", Host: "shop.example.com", Path: "/"}
	res := &result{task: task{kind: k}, url: at, body: []byte(body)}
	r.read(res)
	return res
}

// A report masks no more paths than it may show, and counts what it does not show once.
func TestSkippedOnce(t *testing.T) {
	r := newReport(rules(t))
	for range 3 {
		for i := range maxSkipped + 10 {
			r.addSkipped(fmt.Sprint("/", i), skippedQuery)
		}
	}
	if len(r.Skipped) != maxSkipped || r.More != 10 {
		t.Errorf("%d shown, %d more", len(r.Skipped), r.More)
	}
}

// The page that the User-Agent names has the bounds of a scan and every path that scans look at.
func TestAboutNamesTheBounds(t *testing.T) {
	text := strings.Join(strings.Fields(string(About(DefaultBudget()))), " ")
	for _, want := range []string{
		"16 paths", "5 requests a second to a host and 4 at a time",
		"at most 50 pages and 300 other files, 64 MiB and 120 seconds",
		"it reads 5 MiB, of a source map 20 MiB", "at most 5 a day", "for 10 minutes", "_relay-challenge.",
		"/.well-known/relay-verify.txt",
	} {
		is.Has(t, text, want)
	}
	for _, p := range probes {
		is.Has(t, text, "<code>"+p.path+"</code>", "%s is not named", p.path)
	}
}

// The host of a page's base may be long too, and so may the sitemaps that an index names.
func TestLongHostsAndSitemaps(t *testing.T) {
	scripts := `<html><base href="https://` + strings.Repeat("A", 1_900) + `/">` +
		strings.Repeat("<script src=1></script>", 2*maxNext)
	index := "<sitemapindex>" +
		strings.Repeat("<loc>https://shop.example.com/"+strings.Repeat("a", 1_900)+"</loc>", 3_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ofHost := readBody(t, page, scripts)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 150<<20 {
		t.Errorf("%d bytes take %d bytes of memory, one after the other", len(scripts), taken)
	}
	for name, res := range map[string]*result{"host": ofHost, "sitemaps": readBody(t, sitemap, index)} {
		size := 0
		for _, n := range res.next {
			size += len(n.url.String())
		}
		if size > 5<<20 || len(res.next) < 500 || res.dropped == 0 {
			t.Errorf("%s: %d URLs of %d bytes, %d dropped", name, len(res.next), size, res.dropped)
		}
	}
}

// Text after the end of a source map is looked at too. The names of a map's first sources are kept.
func TestMapWithMoreBehindIt(t *testing.T) {
	res := readBody(t, sourceMap, mapOf(t, "a.ts", key("in the map"))+" "+key("behind the map"))
	if len(res.secrets) != 2 || res.skipped != skippedUnreadable {
		t.Errorf("%d secrets, %q", len(res.secrets), res.skipped)
	}
	body := `{"sources":["a"` + strings.Repeat(`,"a"`, maxSources) + `],"sourcesContent":[` +
		strings.Repeat("null,", maxSources-1) + `"` + key("last name") + `","` + key("without a name") + `"]}`
	if res = readBody(t, sourceMap, body); len(res.secrets) != 2 || res.secrets[0].File != "a" ||
		res.secrets[1].File != unnamed {
		t.Errorf("%+v", res.secrets)
	}
}

// Paths and hosts may be equal as far as they are shown: those take the room of others, and no time.
func TestLongNamesAreMaskedSeldom(t *testing.T) {
	r, long := newReport(rules(t)), strings.Repeat("a", maxPath)
	for i := range maxSkipped + 10 {
		r.addSkipped(fmt.Sprint("/", long, i), skippedQuery)
		r.addThirdParty(fmt.Sprint(long, i))
	}
	r.addSkipped("/other", skippedQuery)
	r.addThirdParty("other")
	if len(r.Skipped) != 1 || r.More != maxSkipped+10 {
		t.Errorf("%d paths are shown, %d more", len(r.Skipped), r.More)
	}
	if r.complete(); len(r.ThirdParty) != 1 {
		t.Errorf("%d hosts are shown", len(r.ThirdParty))
	}
	r = newReport(rules(t))
	if n := testing.AllocsPerRun(10, func() { r.addThirdParty(long) }); n > 0 { // a first run is not counted
		t.Errorf("a host that is known is masked: %v allocations", n)
	}
}

// wire is a configuration with one tripwire, whose fingerprint is fpr_1 or the one that is set.
type wire struct {
	Configuration
	tripwire    leak.Tripwire
	fingerprint string
}

func (w *wire) TripwireByFingerprint(fingerprint string) *leak.Tripwire {
	if fingerprint == "fpr_1" || fingerprint == w.fingerprint {
		return &w.tripwire
	}
	return nil
}

// A tripwire of the scanned domain is no hit where it was planted: at its file's path, at one that its placement names,
// or anywhere if it names none. The exposed file that it is makes no hit either.
func TestTripwireInItsPlace(t *testing.T) {
	for _, c := range []struct {
		domain, file, placement, url string
		want                         bool
	}{
		{"dom_1", "/.env", "", "https://a.example/.env", true},
		{"dom_1", "/.env", "", "https://a.example/app.js", false},
		{"dom_2", "/.env", "", "https://a.example/.env", false},
		{"dom_1", "", "in the bundle", "https://a.example/app.js", true},
		{"dom_1", "", "in (/app.js).", "https://a.example/app.js", true},
		{"dom_1", "", "at https://a.example/app.js", "https://a.example/app.js", true},
		{"dom_1", "", "in /app.js", "https://a.example/other.js", false},
	} {
		w := &wire{tripwire: leak.Tripwire{Domain: c.domain, File: c.file, Placement: c.placement}}
		h := newHits(&Runner{deps: RunnerDeps{Config: w}}, &leak.Scan{Domain: "dom_1"}, nil, nil)
		x := &finding.Hit{Fingerprint: "fpr_1", Location: finding.Location{URL: c.url}}
		path, got := h.isInPlace(x)
		is.Equal(t, got, c.want, "%+v", c)
		if x.Fingerprint = "fpr_2"; got {
			h.tripwires[c.url] = path
			h.list = []*finding.Hit{{Kind: finding.ExposedFile, Location: x.Location}, {Kind: finding.ExposedFile}}
			if h.dropTripwires(); len(h.list) != 1 {
				t.Errorf("%d exposed files", len(h.list))
			}
		}
		if _, other := h.isInPlace(x); other {
			t.Error("another secret is in its place")
		}
	}
}

// LeakedKey implements intake.LeakedKeys.
func (w *wire) LeakedKey(string) (*config.Key, bool) { return nil, false }

// A tripwire of another domain is a hit of its own, also on a website with more secrets than a scan has hits.
func TestTripwireIsSeenBesideManySecrets(t *testing.T) {
	rules := must.Get(secrets.New(secrets.ForLeaks))(t)
	w := &wire{tripwire: leak.Tripwire{Meta: entity.Meta{ID: "trw_1"}, Domain: "dom_2"}}
	h := newHits(&Runner{deps: RunnerDeps{Config: w}}, &leak.Scan{Domain: "dom_1"}, rules, &finding.Keys{})
	h.list = make([]*finding.Hit, maxHits)
	found := Found{Secret: []byte(apikey.New()), URL: "https://a.example/app.js"}
	rules.Scan(found.Secret, func(m secrets.Match) bool { found.Rule = m.Rule; return false })
	w.fingerprint = h.keys.Fingerprint(h.keys.SaltedHash(found.Rule.Canonical(found.Secret)))
	h.add(found)
	if len(h.list) != maxHits+1 || h.list[maxHits].Kind != finding.Tripwire || h.beyond != 0 {
		t.Errorf("%d hits, %d secrets beyond the bound", len(h.list), h.beyond)
	}
}
