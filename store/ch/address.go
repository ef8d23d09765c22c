package ch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/eventrelay/relay/pkg/private"
)

const (
	defaultDatabase = "relay"
	// socketHost is the Host header of requests over a unix socket.
	socketHost = "localhost"
	// DialTimeout bounds connecting to a server.
	DialTimeout = 5 * time.Second
	// readTimeout bounds the wait for the first byte of an answer; contexts usually end earlier.
	readTimeout = time.Minute
)

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// loadRootCAs reads the root certificates for TLS. No file: nil, which means those of the system.
func loadRootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("clickhouse URL: ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("clickhouse URL: ca_file %s holds no certificate", file)
	}
	return roots, nil
}

// splitHosts removes all hosts but the first from an address, because net/url parses only one.
func splitHosts(raw string) (first string, others []string) {
	scheme, afterScheme, ok := strings.Cut(raw, "://")
	if !ok {
		return raw, nil
	}
	end := len(afterScheme)
	if i := strings.IndexAny(afterScheme, "/?"); i >= 0 {
		end = i
	}
	begin := strings.LastIndexByte(afterScheme[:end], '@') + 1
	hosts := strings.Split(afterScheme[begin:end], ",")
	return scheme + "://" + afterScheme[:begin] + hosts[0] + afterScheme[end:], hosts[1:]
}

// parseURL parses the address of one ClickHouse shard:
//
//	clickhouse://user:password@host:9000/database  native protocol
//	http://…:8123/database, https://…:8443/database  HTTP
//	unix:///path?database=name  HTTP over a unix socket of this user
//
// Further hosts after commas are replicas, tried when the hosts before them cannot be reached. The parameter ca_file
// names a file with root certificates; other parameters are options of clickhouse-go, or settings of every statement.
// The default database is relay.
func parseURL(raw string) (*clickhouse.Options, error) {
	first, replicas := raw, []string(nil)
	if !strings.HasPrefix(raw, "unix:") {
		first, replicas = splitHosts(raw)
	}
	u, err := url.Parse(first)
	if err != nil {
		// The cause of the error would repeat the password.
		return nil, errors.New("clickhouse URL: cannot be parsed; " +
			"percent-encode the user and the password (/ is %2F, @ is %40)")
	}
	params := u.Query()
	roots, err := loadRootCAs(params.Get("ca_file"))
	if err != nil {
		return nil, err
	}
	params.Del("ca_file") // clickhouse-go would send it as a setting with every statement
	var socket string
	switch u.Scheme {
	case "unix":
		if socket = u.Path; socket == "" || u.Host != "" {
			return nil, errors.New("clickhouse URL: a unix socket is written unix:///path/of/the/socket?database=name")
		}
		u.Scheme, u.Host, u.Path = "http", socketHost, "/"+params.Get("database")
		params.Del("database")
	case "clickhouse", "http":
	case "https":
		params.Set("secure", "true") // clickhouse-go requires it besides the scheme
	default:
		return nil, fmt.Errorf("clickhouse URL: scheme %q is not supported: use clickhouse, http, https or unix", u.Scheme)
	}
	u.RawQuery = params.Encode()
	opts, err := clickhouse.ParseDSN(u.String())
	if err != nil {
		return nil, fmt.Errorf("clickhouse URL: %w", err)
	}
	switch {
	case roots != nil && opts.TLS == nil:
		return nil, errors.New("clickhouse URL: ca_file needs TLS: use https:// or secure=true")
	case roots != nil:
		opts.TLS.RootCAs = roots
	}
	if opts.Auth.Database == "" {
		opts.Auth.Database = defaultDatabase
	}
	if !databaseName.MatchString(opts.Auth.Database) {
		return nil, fmt.Errorf("clickhouse URL: database %q is not a plain name: use letters, digits and _, and no "+
			"digit first", opts.Auth.Database)
	}
	opts.Addr = append(opts.Addr, replicas...)
	if socket != "" {
		opts.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return private.Dial(ctx, socket) }
	}
	opts.DialTimeout = DialTimeout
	opts.ReadTimeout = readTimeout
	opts.ClientInfo.Products = append(opts.ClientInfo.Products, struct{ Name, Version string }{"eventrelay", "1"})
	opts.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) {
		t.Proxy = nil // no proxy, whatever HTTP_PROXY says
		return transport{t}, nil
	}
	return opts, nil
}

// transport keeps no connection after a failed request. If a context ends while the connection for its request is being
// made, net/http keeps that connection for later requests. clickhouse-go drops the transport of a failed first request,
// so that the connection would stay open for ConnMaxLifetime, an hour.
type transport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(r)
	if err != nil {
		t.CloseIdleConnections()
	}
	return answer, err
}
