package read_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
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
