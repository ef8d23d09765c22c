package domain

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// rig has one domain, a name server, and a website that answers as page says.
type rig struct {
	*Domains
	t      *testing.T
	dns    *websites.DNS
	site   *websites.Site
	page   http.HandlerFunc
	domain *leak.Domain
	paths  []string // that were requested
}

const token = "rvf_0123456789abcdefghijABCDEFGHIJ01"

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dns: websites.StartDNS(t)}
	r.site = websites.StartSite(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.paths = append(r.paths, req.Host+req.URL.Path)
		for name := range req.Header {
			if name != "User-Agent" && name != "Accept" {
				t.Errorf("a request with the header %s", name)
			}
		}
		r.page(w, req)
	}))
	r.domain = &leak.Domain{Meta: entity.Meta{ID: "dom_1", CreatedAt: time.Now()}, Token: token,
		Hostname: "shop.example.com:" + r.site.Port}
	resolver := must.Get(egress.NewResolver(r.dns.Address))(t)
	scanner := must.Get(secrets.New(secrets.ForLeaks))(t)
	r.dns.SetAddrs("shop.example.com", "127.0.0.1")
	r.Domains = New(Deps{Log: slog.New(slog.DiscardHandler), Resolver: resolver, Scanner: scanner, UserAgent: "test",
		Transport: websites.Transport(t, r.dns, r.site), Now: time.Now})
	return r
}

// want looks for the proof and compares what is found.
func (r *rig) want(method, wrong, seen string) {
	r.t.Helper()
	gotWrong, gotSeen := r.find(r.t.Context(), r.domain, method)
	if gotWrong != wrong || gotSeen != seen {
		r.t.Errorf("by %s: %q, saw %q; want %q, %q", method, gotWrong, gotSeen, wrong, seen)
	}
}

// A TXT record proves exactly the name below which it stands. Other records beside it do no harm, and what stands there
// instead is shown.
func TestProofByDNS(t *testing.T) {
	r := newRig(t)
	const name, record = "_relay-challenge.shop.example.com", "relay-verify=" + token
	r.want("dns", "not_found", "")
	r.dns.SetTexts(name, "v=spf1 -all", "  "+record+" ")
	r.want("dns", "", "")
	r.dns.SetTexts(name, token, strings.ToLower(record), record+"x")
	r.want("dns", "mismatch", token+"; "+strings.ToLower(record)+"; "+record+"x")
	r.dns.SetTexts(name)
	for _, other := range []string{"_relay-challenge.example.com", "shop.example.com",
		"_relay-challenge.www.example.com"} {
		r.dns.SetTexts(other, record)
	}
	r.want("dns", "not_found", "")
	secret := "sk_" + "live_q8ZkT2vN4xW7yR1mB5cJ9dL3"
	r.dns.SetTexts(name, "\u202e"+secret, "2", "3", "4", "5", "6", "7")
	r.want("dns", "mismatch", "sk_live_***9dL3; 2; 3; 4; 5; and 2 more")
	r.dns.SetFailing(true)
	r.want("dns", "unreachable", "")
}

// A file proves the host name that serves it: not after a redirect, not beside other text, not with another status, not
// on an address that is not public, and not without a valid certificate.
func TestProofByFile(t *testing.T) {
	r := newRig(t)
	text := func(status int, s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, s)
		}
	}
	f := func(page http.HandlerFunc, wrong, seen string) {
		t.Helper()
		r.page = page
		r.want("http", wrong, seen)
	}
	f(text(200, token), "", "")
	f(text(200, "\ufeff "+token+"\r\n"), "", "")
	f(text(200, token+" and more"), "mismatch", token+" and more")
	f(text(200, strings.ToLower(token)), "mismatch", strings.ToLower(token))
	f(text(200, ""), "mismatch", "")
	f(text(200, strings.Repeat(" ", maxProof)+token), "mismatch", "r")
	f(text(200, "<html>"+strings.Repeat("x", 1<<20)), "mismatch", "<html>"+strings.Repeat("x", maxSeen-6))
	f(text(404, token), "not_found", "HTTP status 404")
	f(text(500, token), "not_found", "HTTP status 500")
	f(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.example.com/?secret=1", http.StatusMovedPermanently)
	},
		"redirected", "a redirect to www.example.com")
	f(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/token.txt", http.StatusFound) },
		"redirected", "a redirect to another page of the website")
	f(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unreachable", "")
	if want := r.domain.Hostname + "/.well-known/relay-verify.txt"; len(r.paths) != 12 || r.paths[0] != want ||
		r.paths[11] != want {
		t.Errorf("requests to %v", r.paths)
	}
	r.page, r.paths = text(200, token), nil
	r.dns.SetAddrs("shop.example.com", "127.1.0.1")
	r.want("http", "blocked", "")
	r.dns.SetAddrs("shop.example.com", "10.0.0.1")
	r.want("http", "blocked", "")
	r.dns.SetAddrsByQuestion("shop.example.com", func(int) []string { return nil })
	r.want("http", "unreachable", "")
	r.domain.Hostname = "shop.other.test:" + r.site.Port
	r.dns.SetAddrs("shop.other.test", "127.0.0.1")
	r.want("http", "tls", "")
	is.Equal(t, len(r.paths), 0, "requests to %v", r.paths)
}

// directory is a configuration with domains that are checked in tests.
type directory struct {
	mu      sync.Mutex // guards the fields below
	domains map[string]*leak.Domain
	checks  []leak.DomainCheck
}

func (c *directory) Account() *entity.Account { return &entity.Account{ID: "acc_1"} }

func (c *directory) Domains(string, int64, int) (all []*leak.Domain, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.domains {
		all = append(all, d)
	}
	return all, false
}

func (c *directory) RecordDomainCheck(_ context.Context, id string, check leak.DomainCheck) (*leak.Domain, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, check)
	d := *c.domains[id]
	d.Checked = check
	c.domains[id] = &d
	return &d, nil
}

// records is a resolver with the same records for every name.
type records []string

func (r records) LookupTXT(context.Context, string) ([]string, error) { return r, nil }

// A verified domain is checked once a day, by its method, on the node that owns the first partition; others are not.
func TestDailyCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, owner := time.Now(), false
		var log bytes.Buffer
		dir := &directory{domains: map[string]*leak.Domain{
			"dom_1": {Meta: entity.Meta{ID: "dom_1"}, Hostname: "a.example.com", Token: token, Method: "dns", VerifiedAt: start,
				Checked: leak.DomainCheck{At: start}},
			"dom_2": {Meta: entity.Meta{ID: "dom_2"}, Hostname: "b.example.com", Token: token, Method: "dns", VerifiedAt: start,
				ExpiredAt: start},
			"dom_3": {Meta: entity.Meta{ID: "dom_3", CreatedAt: start}, Hostname: "c.example.com", Token: token},
		}}
		var mu sync.Mutex // guards owner
		x := New(Deps{Log: slog.New(slog.NewTextHandler(&log, nil)), Config: dir, Resolver: records{"other"}, Now: time.Now,
			Scanner: masks(t), IsOwner: func() bool { mu.Lock(); defer mu.Unlock(); return owner }})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = x.Run(ctx) })
		sleep := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			dir.mu.Lock()
			defer dir.mu.Unlock()
			if len(dir.checks) != want {
				t.Errorf("%d checks after %v, want %d", len(dir.checks), time.Since(start), want)
			}
		}
		sleep(48*time.Hour+time.Second, 0)
		mu.Lock()
		owner = true
		mu.Unlock()
		sleep(time.Minute, 1)
		sleep(23*time.Hour, 1)
		sleep(time.Hour, 2)
		cancel()
		wg.Wait()
		if c := dir.checks[1]; c.Error != leak.DomainMismatch || c.Seen != "other" || c.Method != "dns" {
			t.Errorf("%+v", c)
		}
		if n := strings.Count(log.String(), "the proof of a domain is missing"); n != 2 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
}

// unreachable is a resolver that gets no answer.
type unreachable struct{}

func (unreachable) LookupTXT(context.Context, string) ([]string, error) {
	return nil, io.ErrUnexpectedEOF
}

// A check without an answer is silent unless another domain got one in the last day.
func TestSilence(t *testing.T) {
	now := time.Now()
	for name, x := range map[string]struct {
		other  leak.DomainCheck
		silent bool
	}{
		"a proof":        {leak.DomainCheck{At: now.Add(-time.Hour)}, false},
		"another answer": {leak.DomainCheck{At: now.Add(-time.Hour), Error: leak.DomainNotFound}, false},
		"no answer":      {leak.DomainCheck{At: now.Add(-time.Hour), Error: leak.DomainUnreachable}, true},
		"an old answer":  {leak.DomainCheck{At: now.Add(-25 * time.Hour)}, true},
		"no check":       {leak.DomainCheck{}, true},
	} {
		d := &leak.Domain{Meta: entity.Meta{ID: "dom_1"}, Hostname: "a.example.com", Token: token, Method: "dns",
			Checked: leak.DomainCheck{At: now.Add(-time.Minute)}}
		dir := &directory{domains: map[string]*leak.Domain{"dom_1": d,
			"dom_2": {Meta: entity.Meta{ID: "dom_2"}, Checked: x.other}}}
		y := New(Deps{Config: dir, Resolver: unreachable{}, Now: time.Now, Scanner: masks(t)})
		if after, err := y.Recheck(t.Context(), d); err != nil || after.Checked.Silent != x.silent ||
			after.Checked.Error != leak.DomainUnreachable {
			t.Errorf("%s: %+v, %v", name, after.Checked, err)
		}
	}
}

func masks(t *testing.T) *secrets.Scanner {
	s := must.Get(secrets.New(secrets.ForLeaks))(t)
	return s
}

// attempts counts occurrences.
type attempts map[string]int

func (a attempts) Claim(_ context.Context, key string, most int) time.Duration {
	if a[key]++; a[key] > most {
		return time.Minute
	}
	return 0
}

// People get 10 checks of a host name in an hour, also if they add it again. A check that its caller leaves is not
// recorded.
func TestAttemptsAreBounded(t *testing.T) {
	d := &leak.Domain{Meta: entity.Meta{ID: "dom_1"}, Hostname: "a.example.com", Token: token}
	again := *d
	again.ID = "dom_2"
	dir := &directory{domains: map[string]*leak.Domain{"dom_1": d, "dom_2": &again}}
	x := New(Deps{Config: dir, Resolver: records{"relay-verify=" + token}, Now: time.Now, Scanner: masks(t),
		Attempts: attempts{}})
	for i := range 11 {
		after, pause, err := x.Verify(t.Context(), []*leak.Domain{d, &again}[i%2], "dns")
		if err != nil || (pause > 0) != (i == 10) || i < 10 && after.Checked.Error != "" {
			t.Errorf("attempt %d: %+v, %v, %v", i+1, after, pause, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := *d
	left.Hostname = "b.example.com"
	if _, _, err := x.Verify(ctx, &left, "dns"); err == nil || len(dir.checks) != 10 {
		t.Errorf("%v, %d checks", err, len(dir.checks))
	}
}
