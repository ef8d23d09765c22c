package scan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// key returns a made-up secret that a server must keep, of its own for each place.
func key(place string) string {
	sum := sha256.Sum256([]byte("planted in " + place))
	text := strings.NewReplacer("+", "a", "/", "B", "=", "").Replace(base64.StdEncoding.EncodeToString(sum[:]))
	return "sk_" + "live_" + text[:28]
}

// site is a website whose answers are a table of paths, by host.
type site struct {
	*websites.Site
	t       testing.TB
	dns     *websites.DNS
	port    string
	mu      sync.Mutex // guards the fields below
	answers map[string]http.HandlerFunc
	asked   map[string]int // requests by host and path
	other   http.HandlerFunc
}

func newSite(t testing.TB) *site {
	s := &site{t: t, dns: websites.StartDNS(t), answers: map[string]http.HandlerFunc{}, asked: map[string]int{},
		other: http.NotFound}
	s.Site = websites.StartSite(t, s)
	s.port = s.Port
	for _, host := range []string{"shop", "www", "evil", "cdn"} {
		s.dns.SetAddrs(host+".example.com", "127.0.0.1")
	}
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	host, _, _ := strings.Cut(r.Host, ".")
	s.asked[host+r.URL.RequestURI()]++
	answer := s.answers[host+r.URL.Path]
	s.mu.Unlock()
	for name := range r.Header {
		if !slices.Contains([]string{"User-Agent", "Accept", "Accept-Encoding"}, name) {
			s.t.Errorf("%s: a request with the header %s", r.URL, name)
		}
	}
	if r.Method != http.MethodGet || r.Header.Get("Accept-Encoding") != "gzip" {
		s.t.Errorf("%s %s accepts %s", r.Method, r.URL, r.Header.Get("Accept-Encoding"))
	}
	w.Header().Set("Set-Cookie", "session=1; Path=/")
	if answer == nil {
		answer = s.other
	}
	answer(w, r)
}

// counts returns how often each path was asked for; a request of a scan that has ended may still arrive.
func (s *site) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.asked)
}

// on sets the answer of a path. A path without a host is one of shop.
func (s *site) on(path string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path[0] == '/' {
		path = "shop" + path
	}
	s.answers[path] = answer
}

// text sets an answer with that content.
func (s *site) text(path, kind, content string) {
	s.on(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, content)
	})
}

func (s *site) html(path, content string) { s.text(path, "text/html", "<!doctype html><html>"+content) }

// requests returns what was requested.
func (s *site) requests() []string { return slices.Sorted(maps.Keys(s.counts())) }

// scan is what a scan has found: secrets by their text, with their location, and exposed files.
type scan struct {
	*Report
	secrets map[string]string
	files   []string
}

func testBudget() Budget {
	b := DefaultBudget()
	b.Interval = time.Microsecond
	return b
}

func newScanner(t testing.TB, transport http.RoundTripper, budget Budget) *Scanner {
	t.Helper()
	return New(Deps{Metrics: prometheus.NewRegistry(), Transport: transport, UserAgent: "test", Budget: budget,
		Now: time.Now})
}

// rules are those of customers without rules of their own.
func rules(t testing.TB) *secrets.Scanner {
	t.Helper()
	s := must.Get(secrets.New(secrets.ForLeaks))(t)
	return s
}

// scan scans shop.example.com, while that and www.example.com are proven.
func (s *site) scan(budget Budget) *scan {
	s.t.Helper()
	return s.scanWhile(budget, func(host string) bool {
		return host == "shop.example.com:"+s.port || host == "www.example.com:"+s.port
	})
}

func (s *site) scanWhile(budget Budget, verified func(string) bool) *scan {
	s.t.Helper()
	out := &scan{secrets: map[string]string{}}
	last := Progress{}
	report := must.Get(newScanner(s.t, websites.Transport(s.t, s.dns, s.Site), budget).Run(s.t.Context(),
		Target{Hostname: "shop.example.com:" + s.port, Rules: rules(s.t), Verified: verified},
		func(f Found) {
			url := strings.ReplaceAll(f.URL, ".example.com:"+s.port, "")
			if f.Probe != "" {
				out.files = append(out.files, f.Probe)
				return
			}
			if f.File != "" {
				url += fmt.Sprintf(" %s:%d", f.File, f.Line)
			}
			if before := out.secrets[string(f.Secret)]; before != "" {
				url = before + ", " + url
			}
			out.secrets[string(f.Secret)] = url
		}, func(p Progress) { last = p }))(s.t)
	if last.Pages != report.Pages || last.Resources != report.Resources || last.Bytes != report.Bytes {
		s.t.Errorf("the last progress is %+v, the report %+v", last, report)
	}
	slices.Sort(out.files)
	out.Report = report
	return out
}

func (s *scan) skippedFor(reason string) (paths []string) {
	for _, x := range s.Skipped {
		if x.Reason == reason {
			paths = append(paths, x.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

func zipped(content []byte) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(content)
	_ = z.Close()
	return buf.Bytes()
}

func mapOf(t testing.TB, source, content string) string {
	t.Helper()
	out := must.Get(json.Marshal(map[string]any{
		"version": 3, "sources": []string{source}, "sourcesContent": []string{content}, "mappings": ""}))(t)
	return string(out)
}
