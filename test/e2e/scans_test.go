package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// website serves the hosts below example.com. Its name server knows no other name.
type website struct {
	*websites.Site
	dns     *websites.DNS
	mu      sync.Mutex // guards the fields below
	answers map[string]http.HandlerFunc
	asked   map[string]int // by host and path
	agents  map[string]bool
}

func newWebsite(t *testing.T) *website {
	t.Helper()
	s := &website{dns: websites.StartDNS(t), answers: map[string]http.HandlerFunc{}, asked: map[string]int{},
		agents: map[string]bool{}}
	s.Site = websites.StartSite(t, s)
	for _, host := range []string{"shop", "www", "app", "evil", "cdn"} {
		s.dns.SetAddrs(host+".example.com", "127.0.0.1")
	}
	return s
}

// host returns the host name with the port of the website.
func (s *website) host(name string) string { return name + ".example.com:" + s.Port }

func (s *website) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ".")
	s.mu.Lock()
	s.asked[host+r.URL.Path]++
	s.agents[r.UserAgent()] = true
	answer := s.answers[host+r.URL.Path]
	if answer == nil {
		answer = s.answers[host+"/*"]
	}
	s.mu.Unlock()
	if answer == nil {
		answer = http.NotFound
	}
	answer(w, r)
}

// on sets the answer to a path of a host; host/* is that to all others.
func (s *website) on(path string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = answer
}

func (s *website) text(path, content string) {
	s.on(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) })
}

// requests returns how often each path of the verified hosts was requested, apart from proofs.
func (s *website) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.asked)
	maps.DeleteFunc(out, func(path string, _ int) bool { return strings.HasSuffix(path, "/.well-known/relay-verify.txt") })
	return out
}

// plant fills shop.example.com with secrets, and returns where a scan must find which: their masks, and "" for a file
// that is exposed.
func (s *website) plant() map[string]string {
	const page = "<!doctype html><html>"
	at := "https://" + s.host("shop")
	s.text("shop/", page+"<!-- "+leakOf(1)+` --><a href="/a">a</a><a href="/moved">b</a><a href="/away">c</a>
<a href="/logout?now=1">d</a><a href="https://`+s.host("evil")+`/page">e</a><a href="/zipped">f</a><a href="/held">g</a>
<script src="/static/app.js?v=3"></script><script src="https://`+s.host("cdn")+`/cdn.js"></script>`)
	s.text("shop/a", page+leakOf(2))
	s.text("shop/held", page)
	s.text("shop/static/app.js", `k="`+leakOf(3)+`";p="`+strings.Replace(leakOf(13), "sk", "pk", 1)+
		`";import("./lazy.js")`+"\n//# sourceMappingURL=app.js.map")
	s.text("shop/static/lazy.js", leakOf(4))
	file, _ := json.Marshal(map[string]any{"version": 3, "sources": []string{"src/app.ts"},
		"sourcesContent": []string{"line 1\nline 2\nkey = '" + leakOf(5) + "'\n"}, "mappings": ""})
	s.text("shop/static/app.js.map", string(file))
	var packed bytes.Buffer
	outer := gzip.NewWriter(&packed)
	inner := gzip.NewWriter(outer)
	_, _ = io.WriteString(inner, page+leakOf(6)) // a buffer takes everything
	_, _ = inner.Close(), outer.Close()
	s.on("shop/zipped", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	s.text("shop/.env", "# settings\nSTRIPE_KEY="+leakOf(7)+"\n")
	s.text("shop/.git/config", "[core]\n\tbare = false\n")
	s.on("shop/moved", http.RedirectHandler("https://"+s.host("www")+"/new", http.StatusFound).ServeHTTP)
	s.on("shop/away", http.RedirectHandler("https://"+s.host("evil")+"/away", http.StatusFound).ServeHTTP)
	s.text("www/new", page+leakOf(8))
	s.text("shop/sitemap.xml", "<urlset><url><loc>"+at+"/named</loc></url></urlset>")
	s.text("shop/named", page+leakOf(9))
	for i, path := range []string{"shop/logout", "evil/page", "evil/away", "cdn/cdn.js"} { // where no scan may look
		s.text(path, page+leakOf(20+i))
	}
	return map[string]string{
		maskOf(1): at + "/", maskOf(2): at + "/a", maskOf(3): at + "/static/app.js", maskOf(4): at + "/static/lazy.js",
		maskOf(5): at + "/static/app.js.map src/app.ts:3", maskOf(6): at + "/zipped", maskOf(7): at + "/.env",
		maskOf(8): "https://" + s.host("www") + "/new", maskOf(9): at + "/named",
		"environment file": at + "/.env", "Git configuration": at + "/.git/config",
	}
}

// hold lets requests for a page of shop.example.com wait: reached has each, until leave is closed.
func (s *website) hold() (reached, leave chan struct{}) {
	reached, leave = make(chan struct{}, 100), make(chan struct{})
	s.on("shop/held", func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})
	return reached, leave
}

func maskOf(n int) string {
	key := leakOf(n)
	return "sk_live_***" + key[len(key)-4:]
}

// addDomain adds a host of the website and returns the path of the domain.
func (c client) addDomain(hostname string) (path string, d map[string]any) {
	c.t.Helper()
	d = c.must(http.StatusCreated, "POST", "/v1/domains", map[string]any{"hostname": hostname})
	return "/v1/domains/" + d["id"].(string), d
}

// prove adds a host of the website and proves it by DNS.
func (c client) prove(s *website, name string) (id string) {
	c.t.Helper()
	path, d := c.addDomain(s.host(name))
	record, value, _ := strings.Cut(d["dns_record"].(string), " TXT ")
	c.refused(path, "dns", "not_found")
	s.dns.SetTexts(record, "v=spf1 -all", value+"x")
	c.refused(path, "dns", "mismatch")
	s.dns.SetTexts(record, "v=spf1 -all", value)
	c.verify(path, "dns", "verified")
	return d["id"].(string)
}

func (c client) verify(path, method, status string) map[string]any {
	c.t.Helper()
	d := c.must(http.StatusOK, "POST", path+"/verify", map[string]any{"method": method})
	if d["status"] != status {
		c.t.Errorf("after a check by %s: %v", method, d)
	}
	return d
}

// refused checks that a proof is refused for that reason.
func (c client) refused(path, method, reason string) {
	c.t.Helper()
	if d := c.verify(path, method, "pending"); d["last_error"] != reason {
		c.t.Errorf("%v, want %s", d, reason)
	}
}

// awaitScan waits until a scan has ended, and returns its report.
func (c client) awaitScan(id string) (report map[string]any) {
	c.t.Helper()
	eventually(c.t, 3*time.Minute, func() string {
		report = c.must(http.StatusOK, "GET", "/v1/scans/"+id, nil)
		if report["status"] == "queued" || report["status"] == "running" {
			return fmt.Sprint(report)
		}
		return ""
	})
	return report
}

// scanFindings returns where scans have found what: by mask, or by the name of an exposed file.
func (c client) scanFindings(want int) map[string]string {
	c.t.Helper()
	found := map[string]string{}
	eventually(c.t, arrival, func() string {
		clear(found)
		for _, x := range c.must(http.StatusOK, "GET", "/v1/findings?source=scan&limit=100", nil)["data"].([]any) {
			f := x.(map[string]any)
			name, _ := f["masked"].(string)
			if f["kind"] == "exposed_file" {
				name = strings.TrimPrefix(f["name"].(string), "Exposed ")
			}
			if f["severity"] != "critical" || f["occurrences"] != 1.0 || len(f["locations"].([]any)) != 1 {
				c.t.Errorf("%v", f)
			}
			l := f["locations"].([]any)[0].(map[string]any)
			at := l["url"].(string)
			if l["file"] != nil {
				at += fmt.Sprintf(" %v:%v", l["file"], l["line"])
			}
			found[name] = at
		}
		if len(found) < want {
			return fmt.Sprint(found)
		}
		return ""
	})
	return found
}

// A website is scanned after its host names are proven, and forged proofs are refused. The process is killed in the
// middle. After its restart the scan ends once, with a true report: every planted secret is found, at its place, and
// counted once; nothing else is found, and no request leaves the proven hosts. Tripwires that stand on a page are not
// touched by the scan; then each that is touched has a finding and one alert, and answers like a wrong key and like an
// endpoint. A website that answers every path with its one page exposes nothing.
func TestLeakScan(t *testing.T) {
	t.Parallel()
	skipShort(t)
	site := newWebsite(t)
	want := site.plant()
	p := startDevProcess(t, nodeDir(t), "RELAY_DNS_SERVER="+site.dns.Address, shortWaits+"=1")
	domain := p.prove(site, "shop")
	wires := p.plantTripwires(site, domain)
	large := p.scanThroughKills(site, domain, want)
	p.touchTripwires(t, wires)
	p.compareDecoys(wires)
	p.scanOnePage(site)
	if rounds(0, 0, 1) > 0 { // scan.TestBudgets and the comparison above show most of it
		p.scanLargeSite(site, large)
		p.timeDecoys(t, wires)
	}
	for request := range site.requests() {
		if host, _, _ := strings.Cut(request, "/"); host != "shop" && host != "www" && host != "app" {
			t.Errorf("a request to %s", request)
		}
	}
	is.Equal(t, site.dns.Asked("evil.example.com")+site.dns.Asked("cdn.example.com"), 0,
		"questions for hosts that are not proven")
	for _, agent := range slices.Collect(maps.Keys(site.agents)) {
		if _, page, found := strings.Cut(agent, "RelayLeakScan/1 (+"); found {
			page = strings.TrimSuffix(page, ")")
			if status, text := p.page(page); status != http.StatusOK || !strings.Contains(text, "How to make it stop") {
				t.Errorf("%s is answered %d %s", page, status, text)
			}
			return
		}
	}
	t.Errorf("no request names the scan: %v", site.agents)
}

// page reads a page that needs no key.
func (p *process) page(url string) (status int, text string) {
	p.t.Helper()
	res := must.Get(http.Get(url))(p.t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(p.t)
	return res.StatusCode, string(body)
}

// scanThroughKills scans a domain, shop.example.com, while the process is killed. It returns the id of another proven
// domain, of www.example.com.
func (p *process) scanThroughKills(site *website, domain string, want map[string]string) (other string) {
	t := p.t
	path, pending := p.addDomain(site.host("www"))
	unproven := map[string]any{"domain_id": pending["id"]}
	if e := p.must(http.StatusBadRequest, "POST", "/v1/scans", unproven); !strings.Contains(fmt.Sprint(e), "pending") {
		t.Errorf("a scan of a host that is not proven: %v", e)
	}
	p.must(http.StatusOK, "DELETE", path, nil)
	other = p.prove(site, "www")
	reached, leave := site.hold()
	body := map[string]any{"domain_id": domain}
	scan := p.must(http.StatusCreated, "POST", "/v1/scans", body)["id"].(string)
	for kill := range rounds(1, 1, 4) { // as often as a scan is begun again
		<-reached
		if s := p.must(http.StatusOK, "GET", "/v1/scans/"+scan, nil); s["status"] != "running" || s["finished_at"] != nil {
			t.Errorf("kill %d: %v", kill, s)
		}
		p.must(http.StatusBadRequest, "POST", "/v1/scans", body) // one scan at a time
		p.kill()
		p.start()
	}
	close(leave)
	report := p.awaitScan(scan)
	if report["status"] != "completed" || report["error"] != nil || report["findings_new"] != float64(len(want)) ||
		report["findings_seen"] != 0.0 || report["catch_all"] != false || report["budget_exhausted"] != nil {
		t.Errorf("%v", report)
	}
	for _, reason := range []string{"/logout query", "/away redirect", "/named tripwire"} {
		path, reason, _ := strings.Cut(reason, " ")
		if !slices.ContainsFunc(report["skipped"].([]any), func(x any) bool {
			return x.(map[string]any)["path"] == path && x.(map[string]any)["reason"] == reason
		}) {
			t.Errorf("%s: %s is not in the report: %v", path, reason, report["skipped"])
		}
	}
	if diff := gocmp.Diff(want, p.scanFindings(len(want))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	usage := p.must(http.StatusOK, "GET", "/v1/usage", nil)["events"].(map[string]any)
	if usage["findings"] != float64(len(want)) {
		t.Errorf("%v, want %d findings", usage, len(want))
	}
	if list := p.must(http.StatusOK, "GET", "/v1/scans", nil)["data"].([]any); len(list) != 1 ||
		list[0].(map[string]any)["finished_at"] != report["finished_at"] {
		t.Errorf("%v", list)
	}
	return other
}

// scanLargeSite scans a website with more pages and scripts than a scan looks at. Its report says so.
func (p *process) scanLargeSite(site *website, domain string) {
	var page strings.Builder
	page.WriteString("<!doctype html>")
	for i := range 10_000 {
		fmt.Fprintf(&page, `<a href="/p%d">x</a>`, i)
	}
	for i := range 1_000 {
		fmt.Fprintf(&page, `<script src="/s%d.js"></script>`, i)
	}
	site.text("www/", page.String())
	before := site.requests()
	scan := p.must(http.StatusCreated, "POST", "/v1/scans", map[string]any{"domain_id": domain})["id"].(string)
	report := p.awaitScan(scan)
	requests := 0
	for path, n := range site.requests() {
		requests += n - before[path]
	}
	if report["status"] != "completed" || report["budget_exhausted"] != "pages" || report["pages"] != 50.0 ||
		report["resources"] != 300.0 || report["skipped_more"].(float64) < 10_000 || requests != 350 {
		p.t.Errorf("%d requests, %v", requests, report)
	}
}

// scanOnePage proves app.example.com by its file, which no page and no redirect is, and scans it while it answers every
// path with one page.
func (p *process) scanOnePage(site *website) {
	path, d := p.addDomain(site.host("app"))
	token := d["token"].(string)
	site.text("app/*", "<!doctype html><html>\n[core]\nA=1\n"+token+"\n")
	p.refused(path, "http", "mismatch")
	const file = "app/.well-known/relay-verify.txt"
	site.on(file, http.RedirectHandler("https://"+site.host("www")+"/proof", http.StatusFound).ServeHTTP)
	site.text("www/proof", token)
	p.refused(path, "http", "redirected")
	site.text(file, token+"\n")
	p.verify(path, "http", "verified")
	before := len(p.scanFindings(0))
	scan := p.must(http.StatusCreated, "POST", "/v1/scans", map[string]any{"domain_id": d["id"]})
	report := p.awaitScan(scan["id"].(string))
	if report["status"] != "completed" || report["findings_new"] != 0.0 || report["findings_seen"] != 0.0 ||
		report["catch_all"] != true || len(p.scanFindings(0)) != before {
		p.t.Errorf("%v", report)
	}
}
