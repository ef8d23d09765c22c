package node

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Metrics and profiles answer under IP addresses and known host names, not to web pages. A profile takes a minute at
// most.
func TestAdminHandler(t *testing.T) {
	handler := adminHandler(prometheus.NewRegistry(), []string{"Metrics.internal", "node-1", ""}, true)
	f := func(want int, method, target, host string, header ...string) {
		t.Helper()
		r := httptest.NewRequest(method, target, strings.NewReader("seconds=0.01"))
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s to %q %v: %d %v, want %d", method, target, host, header, w.Code, w.Header(), want)
		}
	}
	for _, host := range []string{"127.0.0.1:9090", "10.1.2.3", "[::1]:9090", "localhost:9090", "LOCALHOST", "node-1:9090",
		"metrics.internal.", "metrics.internal:80"} {
		f(http.StatusOK, "GET", "/metrics", host)
	}
	for _, host := range []string{"evil.example:9090", "127.0.0.1.evil.example", "localhost.evil.example", "", "node-2",
		"0.0.0.0:9090", "[::]:9090", "[::ffff:127.0.0.1]:9090", "[::ffff:10.1.2.3]"} {
		f(http.StatusForbidden, "GET", "/metrics", host)
		f(http.StatusForbidden, "GET", "/debug/pprof/heap?gc=1", host)
	}
	for site, want := range map[string]int{
		"none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403, "?": 403} {
		f(want, "GET", "/metrics", "127.0.0.1:9090", "Sec-Fetch-Site", site)
	}
	f(http.StatusForbidden, "GET", "/metrics", "127.0.0.1:9090", "Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site")
	for _, origin := range []string{"https://evil.example", "null", "", "http://127.0.0.1:9090"} {
		f(http.StatusForbidden, "GET", "/metrics", "127.0.0.1:9090", "Origin", origin)
	}
	for seconds, want := range map[string]int{
		"0.01": 200, "60.5": 400, "99999": 400, "NaN": 400, "Inf": 400, "1e99": 400} {
		f(want, "GET", "/debug/pprof/trace?seconds="+seconds, "localhost")
	}
	f(http.StatusBadRequest, "GET", "/debug/pprof/heap?seconds=61", "localhost")
	f(http.StatusMethodNotAllowed, "POST", "/debug/pprof/trace", "localhost")
	f(http.StatusOK, "POST", "/debug/pprof/symbol", "localhost")
	handler = adminHandler(prometheus.NewRegistry(), nil, false)
	f(http.StatusOK, "GET", "/metrics", "localhost")
	for _, path := range []string{"", "heap", "goroutine?debug=2", "cmdline", "profile?seconds=1", "trace", "symbol"} {
		f(http.StatusNotFound, "GET", "/debug/pprof/"+path, "localhost")
	}
	if adminWriteTime <= maxProfile || adminWriteTime > maxProfile+time.Minute {
		t.Errorf("an answer may take %v, a profile %v", adminWriteTime, maxProfile)
	}
}

// An address that other machines can reach causes a warning.
func TestAdminBeyondLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:9090": false, "127.8.0.1:9090": false, "[::1]:9090": false, "0.0.0.0:9090": true, "[::]:9090": true,
		"10.0.0.7:9090": true} {
		at := must.Get(net.ResolveTCPAddr("tcp", address))(t)
		is.Equal(t, beyondLoopback(at), want, address)
	}
}

// A node checks what its roles need: only the role api needs the store.
func TestReadinessByRole(t *testing.T) {
	for role, want := range map[string]bool{"ingest": false, "dispatch": false, "write": false, "api": true} {
		n := &Node{Host: features.Host{Settings: &nodeconfig.Config{Roles: []string{role}}, Reader: new(read.Reader)}}
		store := slices.ContainsFunc(n.checks(), func(c api.Check) bool { return c.Name == "store" })
		is.Equal(t, store, want, "a node with the role %s checks the store", role)
	}
}

// If the address of metrics is in use, the node answers no request before it ends.
func TestAdminServerStartsBeforeRequests(t *testing.T) {
	at := func(name string) int {
		return slices.IndexFunc(starts, func(s start) bool { return s.name == name })
	}
	if admin, http := at("admin server"), at("http server"); admin < 0 || http < admin {
		t.Errorf("the admin server is start %d, the http server %d", admin, http)
	}
}

// A damaged store fails a check that takes no node out of the load balancer.
func TestDamageFailsItsCheck(t *testing.T) {
	n := &Node{Host: features.Host{Settings: &nodeconfig.Config{Roles: []string{nodeconfig.RoleAPI}},
		Reader: new(read.Reader)}}
	checks := n.checks()
	i := slices.IndexFunc(checks, func(c api.Check) bool { return c.Name == "stored data" })
	must.Equal(t, i >= 0 && checks[i].Optional, true, "stored data")
	is.OK(t, checks[i].Func(t.Context()))
	n.damage.Store(&[]string{"part all_1_1_0 of events is broken"})
	is.Has(t, fmt.Sprint(checks[i].Func(t.Context())), "all_1_1_0", "the check")
}
