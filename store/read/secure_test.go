package read_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// securedServer is a proxy in front of ClickHouse that uses TLS and requires a user.
type securedServer struct {
	mu     sync.Mutex // guards the fields below
	others int        // requests without the right user
	bases  map[string]bool
}

func newSecured(t *testing.T) (s *securedServer, host, caFile string) {
	conf, caFile := kit.Certificate(t)
	s = &securedServer{bases: map[string]bool{}}
	target := must.Get(url.Parse("http://" + storetest.Engines.ClickHouse))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user == "" {
			user, password = r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
		}
		s.mu.Lock()
		right := user == "relay" && password == "p@ss, word/1"
		if right {
			s.bases[r.URL.Query().Get("database")] = true
		} else {
			s.others++
		}
		s.mu.Unlock()
		if !right {
			w.Header().Set("X-ClickHouse-Exception-Code", "516")
			http.Error(w, "Code: 516. DB::Exception: relay: Authentication failed (AUTHENTICATION_FAILED)", http.StatusForbidden)
			return
		}
		r.Header.Del("Authorization")
		r.Header.Del("X-ClickHouse-User")
		r.Header.Del("X-ClickHouse-Key")
		proxy.ServeHTTP(w, r)
	}))
	server.TLS, server.Config.ErrorLog = conf, log.New(io.Discard, "", 0) // some handshakes are meant to fail
	server.StartTLS()
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().String(), caFile
}

// Migrations, writers and readers accept a URL with TLS, a user, a database, and a password with every character that
// has a meaning in a URL.
func TestURLWithTLSUserAndDatabase(t *testing.T) {
	b := newBench(t)
	s, host, caFile := newSecured(t)
	address := func(user *url.Userinfo, params url.Values) string {
		u := url.URL{Scheme: "https", User: user, Host: host, Path: "/" + b.Database(), RawQuery: params.Encode()}
		return u.String()
	}
	relay, ca := url.UserPassword("relay", "p@ss, word/1"), url.Values{"ca_file": {caFile}}
	b.DropDatabase()
	right := address(relay, ca)
	must.Do(t, storetest.Migrate(t.Context(), right, 30))
	w, stop := b.Writer(write.WriterConfig{URL: right})
	r := b.ReaderWith(cluster.Config{URL: right, RetentionDays: 30}, w)
	b.ProduceEvents(b.Event(1), b.Event(2))
	if rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 10}, 1); len(rows) != 2 {
		t.Errorf("%d events are read", len(rows))
	}
	stop()
	s.mu.Lock()
	if s.others != 0 || !s.bases[b.Database()] {
		t.Errorf("%d requests without the user; databases %v", s.others, s.bases)
	}
	s.mu.Unlock()

	for name, c := range map[string]struct{ url, want string }{
		"wrong password":    {address(url.UserPassword("relay", "guess"), ca), "516"},
		"no user":           {address(nil, ca), "516"},
		"unknown signer":    {address(relay, nil), "certificate"},
		"no such file":      {address(relay, url.Values{"ca_file": {caFile + "x"}}), "ca_file"},
		"file of no roots":  {address(relay, url.Values{"ca_file": {"secure_test.go"}}), "holds no certificate"},
		"roots without TLS": {strings.Replace(right, "https", "http", 1), "ca_file needs TLS"},
	} {
		err := storetest.Migrate(t.Context(), c.url, 30)
		is.Failed(t, err, c.want, name)
		if err != nil && (strings.Contains(err.Error(), "p@ss") || strings.Contains(err.Error(), "p%40ss")) {
			t.Errorf("%s: the error contains the password: %v", name, err)
		}
	}
}

// TestEveryReadUnderFaults injects every kind of fault into every statement of every kind of read: the answer is
// correct, or the error is ErrUnavailable. A list that was cut short is never returned as complete.
func TestEveryReadUnderFaults(t *testing.T) {
	b := newBench(t)
	h := newHistory(b, kit.Seed(t))
	h.clock = time.Now().Add(-3 * time.Hour) // few windows, so that a list takes few statements
	h.addEvents(60)
	for range 5 { // to recover
		e := b.Event(1)
		b.resend(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
	}
	found := newFindingsModel(b, h.rnd)
	found.add(60)
	g := storetest.NewFaultProxy(b.Bench)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWith(cluster.Config{URL: g.URL, RetentionDays: 30, SelectPage: 20}, w)
	ctx := t.Context()
	old, now := time.Now().AddDate(0, 0, -20), time.Now().Add(time.Minute)
	some := make([]id.ID, 20)
	for i := range some {
		some[i] = h.events[i].ID
	}
	failed := event.Selection{
		Account: storetest.Account, Endpoint: "ep_1", Since: old, Until: now,
		Groups: []event.SelectionGroup{{Dests: []string{"dst_a", "dst_b"}}}}
	job := event.RecoveryJob{Account: storetest.Account, ID: h.runs[0], Selection: "sel"}
	if sel, err := r.SelectRecovery(ctx, failed, job.Selection); err != nil {
		t.Fatal(err)
	} else if job.Total = sel.Total; job.Total == 0 {
		t.Fatal("no item is selected")
	}
	list := func(change func(*event.Query)) func() (any, error) {
		q := event.Query{Account: storetest.Account, Limit: 50}
		change(&q)
		return func() (any, error) { return r.Events(ctx, q) }
	}
	n := 0
	reads := map[string]func() (any, error){
		"list":             list(func(*event.Query) {}),
		"list of endpoint": list(func(q *event.Query) { q.Endpoints = []string{"ep_1"} }),
		"failed list":      list(func(q *event.Query) { q.Statuses = []event.Status{event.Failed} }),
		"delivered list":   list(func(q *event.Query) { q.Statuses = []event.Status{event.Delivered} }),
		"processing list":  list(func(q *event.Query) { q.Processing = []event.Processing{event.ProcessingDone} }),
		"list of run":      list(func(q *event.Query) { q.Runs = h.runs[:1] }),
		"failed in runs":   list(func(q *event.Query) { q.Runs, q.Statuses = h.runs, []event.Status{event.Failed} }),
		"search":           list(func(q *event.Query) { q.Search = &event.Search{Text: "n"} }),
		"attempts":         func() (any, error) { return r.Attempts(ctx, storetest.Account, some[0], id.ID{}, 10) },
		"audit":            func() (any, error) { return r.Audit(ctx, audit.Query{Account: storetest.Account, Limit: 10}) },
		"key uses":         func() (any, error) { return r.KeyUses(ctx, storetest.Account, nil) },
		"summaries":        func() (any, error) { return r.Summaries(ctx, storetest.Account, some) },
		"endpoint":         func() (any, error) { return r.EventEndpoint(ctx, storetest.Account, some[3]) },
		"recovery items":   func() (any, error) { return r.RecoveryItems(ctx, job, 0, 50, nil) },
		"recovery counts": func() (any, error) {
			counts, _, err := r.RecoveryCounts(ctx, storetest.Account, h.runs...)
			return counts, err
		},
		"recovery failures": func() (any, error) { return r.RecoveryFailures(ctx, storetest.Account, h.runs[0]) },
		"select recovery": func() (any, error) {
			n++
			return r.SelectRecovery(ctx, failed, fmt.Sprint("sel", n))
		},
		"placed": func() (any, error) {
			return r.EventsByOffset(ctx, event.OffsetQuery{
				Account: storetest.Account, Endpoint: "ep_1", Partition: 1, To: 1000, Limit: 30, Bytes: 1 << 20, MaxBody: 1 << 10,
				Since: old})
		},
		"stored": func() (any, error) { return r.Stored(ctx, storetest.Account, some) },
		"usage": func() (any, error) {
			f, err := r.Usage(ctx, event.UsageOf{Account: storetest.Account},
				event.UsageSpan{From: old.Truncate(time.Hour), To: now, Recent: old.Truncate(time.Hour)})
			f.AsOf, f.QueryTime = time.Time{}, 0
			return f, err
		},
		"recovery work": func() (any, error) {
			var all []event.OpenRecoveryItem
			err := r.OpenRecoveryItems(ctx, job, 0, job.Total, func(w *event.OpenRecoveryItem) error {
				all = append(all, *w)
				return nil
			})
			return all, err
		},
		"selection": func() (any, error) {
			var all []event.Match
			err := r.Select(ctx, event.Query{Account: storetest.Account, Limit: 50, Since: old, Until: now},
				func(m []event.Match) error { all = append(all, m...); return nil })
			return all, err
		},
	}
	maps.Copy(reads, found.reads(r))
	faults := 0
	for name, read := range reads {
		g.SetRule(nil)
		want, err := read()
		statements, _ := g.SetRule(nil)
		if err != nil || statements == 0 {
			t.Fatalf("%s without a fault: %v, %d statements", name, err, statements)
		}
		for nth := range statements {
			all := []storetest.Fault{storetest.Refused, storetest.Cut, storetest.Torn, storetest.Lost, storetest.Half}
			for i := range storetest.Rounds(1, 1, len(all)) {
				f := all[(nth+len(name)+2*i)%len(all)]
				g.SetRule(func(n int, _ string) storetest.Fault {
					if n == nth {
						return f
					}
					return storetest.NoFault
				})
				got, err := read()
				_, hits := g.SetRule(nil)
				if faults += hits; errors.Is(err, event.ErrUnavailable) {
					continue
				}
				if err != nil {
					t.Errorf("%s, statement %d %v: %v", name, nth, f, err)
				} else if diff := gocmp.Diff(want, got, storetest.CompareIPs, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, statement %d %v: another answer (-want +got):\n%s", name, nth, f, diff)
				}
			}
		}
	}
	t.Logf("%d statements got a fault", faults)
}
