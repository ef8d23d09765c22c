package clickhouse

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

func TestGuard(t *testing.T) {
	const key, own = "0123456789abcdef", "127.0.0.1:8123"
	loopback, socket := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8123}, &net.UnixAddr{Name: "x", Net: "unix"}
	lan := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8123}
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Add(pairs[i], pairs[i+1])
			}
		}
	}
	keyed := Config{Key: key}
	for name, c := range map[string]struct {
		cfg    Config
		at     net.Addr
		host   string
		change func(*http.Request)
		code   string // of the exception; empty: the request runs
	}{
		"listen address":         {at: loopback, host: own},
		"localhost":              {at: loopback, host: "LocalHost:8123"},
		"socket":                 {at: socket, host: "localhost"},
		"typed into a browser":   {at: loopback, host: own, change: header("Sec-Fetch-Site", "none")},
		"web page":               {at: loopback, host: own, change: header("Origin", "https://evil.example"), code: "497"},
		"web page, null origin":  {at: loopback, host: own, change: header("Origin", "null"), code: "497"},
		"web page, empty origin": {at: loopback, host: own, change: header("Origin", ""), code: "497"},
		"image of a web page":    {at: loopback, host: own, change: header("Sec-Fetch-Site", "cross-site"), code: "497"},
		"same site, other port":  {at: loopback, host: own, change: header("Sec-Fetch-Site", "same-site"), code: "497"},
		"two sites": {
			at: loopback, host: own, change: header("Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"), code: "497"},
		"rebound name":           {at: loopback, host: "evil.example:8123", code: "497"},
		"other port":             {at: loopback, host: "127.0.0.1:8124", code: "497"},
		"other address":          {at: loopback, host: "127.0.0.2:8123", code: "497"},
		"no host":                {at: loopback, host: "", code: "497"},
		"foreign host at socket": {at: socket, host: "evil.example", code: "497"},
		"localhost beyond":       {at: lan, host: "localhost:8123", code: "497"},
		"named":                  {cfg: Config{Hosts: []string{"Clicks.example"}}, at: lan, host: "clicks.example:9999"},
		"named with port": {
			cfg: Config{Hosts: []string{"clicks.example:1"}}, at: lan, host: "clicks.example:9999", code: "497"},
		"named address": {cfg: Config{Hosts: []string{"[::1]"}}, at: lan, host: "[::1]:9999"},
		"key missing":   {cfg: keyed, at: loopback, host: own, code: "516"},
		"key wrong": {
			cfg: keyed, at: loopback, host: own, change: header("X-ClickHouse-Key", key+"0"), code: "516"},
		"password wrong": {cfg: keyed, at: loopback, host: own, change: func(r *http.Request) {
			r.SetBasicAuth("a", "x")
		}, code: "516"},
		"key": {cfg: keyed, at: loopback, host: own, change: header("X-ClickHouse-Key", key)},
		"password": {cfg: keyed, at: loopback, host: own, change: func(r *http.Request) {
			r.SetBasicAuth("a", key)
		}},
		"page with the key": {
			cfg: keyed, at: loopback, host: own, change: header("X-ClickHouse-Key", key, "Origin", "http://"+own), code: "497"},
	} {
		ran := false
		g := newGuard(c.cfg, c.at, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("SELECT 1"))
		r.Host = c.host
		if c.change != nil {
			c.change(r)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if got := w.Header().Get("X-ClickHouse-Exception-Code"); ran != (c.code == "") || got != c.code || !ran &&
			(w.Code != http.StatusForbidden || w.Header().Get("Connection") != "close") {
			t.Errorf("%s: ran %v, status %d, code %q, want %q", name, ran, w.Code, got, c.code)
		}
	}
}

func TestListenNeedsKey(t *testing.T) {
	for listen, fine := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:8123": true, "localhost:8123": true, "unix:/x/y.sock": true, "fd:3": true,
		"0.0.0.0:8123": false, "192.0.2.1:8123": false, ":8123": false, "clicks.example:8123": false,
	} {
		cfg := DefaultConfig()
		cfg.Data, cfg.Listen = "x", listen
		if err := cfg.Validate(); (err == nil) != fine {
			t.Errorf("%s: %v", listen, err)
		}
		cfg.Key = strings.Repeat("k", MinKeyLength)
		is.OK(t, cfg.Validate(), "%s with a key", listen)
		cfg.Key = "short"
		if cfg.Validate() == nil {
			t.Errorf("%s: a key of five characters is accepted", listen)
		}
	}
}
