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
	// socketHost is the Host of requests over a unix socket.
	socketHost = "localhost"
	// DialTimeout bounds the making of a connection.
	DialTimeout = 5 * time.Second
	// readTimeout bounds the wait for the first byte of an answer; contexts are usually shorter.
	readTimeout = time.Minute
)

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// loadRootCAs reads the certificates that a server's is to be signed by; without a file those of the system count.
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

// splitHosts takes all hosts but the first out of an address, for net/url knows one only.
func splitHosts(raw string) (first string, others []string) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw, nil
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		end = i
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	return scheme + "://" + rest[:begin] + hosts[0] + rest[end:], hosts[1:]
}

// parseURL reads the address of ClickHouse: clickhouse:// is the native protocol, http:// and https:// are HTTP; the
// path names the database. unix:///path is HTTP over a unix socket of this user, and the parameter database names the
// database. Further hosts after commas are replicas, asked when those before them cannot be reached. The parameter
// ca_file names a file with root certificates; all others are the driver's, or settings.
func parseURL(raw string) (*clickhouse.Options, error) {
	first, replicas := raw, []string(nil)
	if !strings.HasPrefix(raw, "unix:") {
		first, replicas = splitHosts(raw)
	}
	u, err := url.Parse(first)
	if err != nil {
		// The cause would repeat the password.
		return nil, errors.New("clickhouse URL: cannot be parsed; " +
			"percent-encode the user and the password (/ is %2F, @ is %40)")
	}
	params := u.Query()
	roots, err := loadRootCAs(params.Get("ca_file"))
	if err != nil {
		return nil, err
	}
	params.Del("ca_file") // the driver takes what it does not know for settings of every statement
	var socket string
	switch u.Scheme {
	case "unix":
		if socket = u.Path; socket == "" || u.Host != "" {
			return nil, errors.New("clickhouse URL: want unix:///path/of/the/socket?database=name")
		}
		u.Scheme, u.Host, u.Path = "http", socketHost, "/"+params.Get("database")
		params.Del("database")
	case "clickhouse", "http":
	case "https":
		params.Set("secure", "true") // the driver asks for it beside the scheme
	default:
		return nil, fmt.Errorf("clickhouse URL: scheme %q is none of clickhouse, http, https, unix", u.Scheme)
	}
	u.RawQuery = params.Encode()
	opts, err := clickhouse.ParseDSN(u.String())
	if err != nil {
		return nil, fmt.Errorf("clickhouse URL: %w", err)
	}
	switch {
	case roots != nil && opts.TLS == nil:
		return nil, errors.New("clickhouse URL: ca_file is for https:// or secure=true")
	case roots != nil:
		opts.TLS.RootCAs = roots
	}
	if opts.Auth.Database == "" {
		opts.Auth.Database = defaultDatabase
	}
	if !databaseName.MatchString(opts.Auth.Database) {
		return nil, fmt.Errorf("clickhouse URL: database %q is not a plain name", opts.Auth.Database)
	}
	opts.Addr = append(opts.Addr, replicas...)
	if socket != "" {
		opts.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return private.Dial(ctx, socket) }
	}
	opts.DialTimeout = DialTimeout
	opts.ReadTimeout = readTimeout
	opts.ClientInfo.Products = append(opts.ClientInfo.Products, struct{ Name, Version string }{"eventrelay", "1"})
	opts.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) {
		t.Proxy = nil // the store is reached directly, whatever the environment says about the web
		return t, nil
	}
	return opts, nil
}
