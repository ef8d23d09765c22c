package ch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestParseURL(t *testing.T) {
	f := func(raw, database string, ok bool) {
		t.Helper()
		opts, err := parseURL(raw)
		is.Equal(t, err == nil, ok, "%s: %v", raw, err)
		if ok && err == nil && opts.Auth.Database != database {
			t.Errorf("%s: database %s", raw, opts.Auth.Database)
		}
	}
	f("http://127.0.0.1:8123", "relay", true)
	f("https://user:pass@ch.example.com:8443/events?compress=lz4", "events", true)
	f("clickhouse://ch.example.com:9000/x", "x", true)
	f("clickhouse://ch.example.com:9000/x;drop", "", false)
	f("redis://ch.example.com", "", false)
	f("", "", false)
	if o, err := parseURL("clickhouse://h:9000"); err != nil || o.Protocol != clickhouse.Native {
		t.Errorf("protocol %v, %v", o.Protocol, err)
	}
}

// TestParseURLsOfShards: a comma begins another shard only before a scheme; hosts of one address are replicas.
func TestParseURLsOfShards(t *testing.T) {
	f := func(raw string, want ...string) {
		t.Helper()
		all, err := ParseURLs(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			return
		}
		var got []string
		for _, o := range all {
			got = append(got, strings.Join(o.Addr, ",")+"/"+o.Auth.Database+" "+o.Auth.Password)
		}
		is.List(t, got, want, "%s is", raw)
	}
	f("http://a:8123/x", "a:8123/x ")
	f("http://a:8123/x,http://b:8123/x", "a:8123/x ", "b:8123/x ")
	f("http://a:8123/x, https://b:8443", "a:8123/x ", "b:8443/relay ")
	f("http://a1:8123,a2:8123/x,http://b1:8123,b2:8123/x", "a1:8123,a2:8123/x ", "b1:8123,b2:8123/x ")
	f("clickhouse://u:p,w@a:9000/x,clickhouse://u:p,w@b:9000/x", "a:9000/x p,w", "b:9000/x p,w")
	for raw, want := range map[string]string{
		"http://a/x,http://a/x":      "named for shard 1 and for shard 2",
		"http://a,b/x,http://c,b/x":  "named for shard 1 and for shard 2",
		"http://a/x,redis://b/x":     "shard 2",
		"http://a/x,http://b/x;drop": "shard 2",
	} {
		if _, err := ParseURLs(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", raw, err, want)
		}
	}
}

// A connection that is made after its request was cancelled is closed.
func TestConnectionOfACancelledRequestIsClosed(t *testing.T) {
	o := must.Get(parseURL("http://ch.example.com:8123"))(t)
	dials, dialed := make(chan struct{}), make(chan net.Conn)
	rt, err := o.TransportFunc(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		close(dials)
		client, server := net.Pipe()
		err := server.SetReadDeadline(time.Now().Add(time.Minute)) // a pipe whose other end is closed has none
		dialed <- server
		return client, err
	}})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://ch.example.com:8123", http.NoBody))(t)
	go func() {
		<-dials
		cancel()
	}()
	if answer, err := rt.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v, want the error of the context", answer, err)
	}
	server := <-dialed
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from the connection: %v, want its end", err)
	}
}
